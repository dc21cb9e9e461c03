//! What the IP header says beside the flow: the Differentiated Services code point (RFC 2474), and
//! the hosts' addresses. A packet's 32 bytes have no room for them, and few disciplines ask, so
//! they are kept by flow, and only if some queue or capture may want them.

use crate::packet::{Packet, PacketKind};
use crate::plan::Topology;

/// The code points and hosts of all flows.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Whether anybody may ask.
    kept: bool,
    /// The code point of each application, up to the last that has one.
    of_application: Vec<u8>,
    of_flow: Vec<OfFlow>,
}

/// The marks of a flow's two ends.
#[derive(Clone, Copy, Debug, Default)]
struct OfFlow {
    dscp: [u8; 2],
    hosts: [u32; 2],
}

/// CS7. ARP has no code point, and CAKE treats it like this one.
const CS7: u8 = 56;
/// CS6, which routers give to their messages; the lower bits are those of the packet that they are
/// about (RFC 1812, 4.3.2.5, and Linux' `icmp_send`).
const CS6: u8 = 48;
const LOWER_BITS: u8 = 0b111;
/// Tells forged addresses from the numbers of hosts.
const FORGED: u32 = 1 << 31;

impl Marks {
    pub(super) fn new(plan: &Topology<'_>) -> Self {
        let mut of_application = Vec::new();
        for codepoint in plan.codepoints {
            let needed = codepoint.application + 1;
            of_application.resize(needed.max(of_application.len()), 0);
            of_application[codepoint.application] = codepoint.dscp;
        }
        let kept =
            !of_application.is_empty() || plan.links.iter().any(|link| link.queue.reads_hosts());
        Self { kept, of_application, of_flow: Vec::new() }
    }

    /// Notes a flow between two applications at these hosts.
    pub(crate) fn note(&mut self, flow: u32, applications: [u32; 2], hosts: [u32; 2]) {
        if !self.kept {
            return;
        }
        let flow = flow as usize;
        self.of_flow.resize((flow + 1).max(self.of_flow.len()), OfFlow::default());
        let known = &self.of_application;
        let dscp = applications.map(|number| known.get(number as usize).copied().unwrap_or(0));
        self.of_flow[flow] = OfFlow { dscp, hosts };
    }

    /// Notes that the addresses of a flow's first end are forged.
    pub(crate) fn forge(&mut self, flow: u32) {
        if let Some(known) = self.of_flow.get_mut(flow as usize) {
            known.hosts[0] = FORGED | flow;
        }
    }

    fn of(&self, packet: &Packet) -> OfFlow {
        self.of_flow.get(packet.flow() as usize).copied().unwrap_or_default()
    }

    /// Returns a packet's code point; ARP's is CS7.
    pub(crate) fn dscp(&self, packet: &Packet) -> u8 {
        if packet.is_washed() {
            return 0;
        }
        let dscp = self.of(packet).dscp;
        let (own, other) = if packet.goes_back() { (dscp[1], dscp[0]) } else { (dscp[0], dscp[1]) };
        match packet.kind() {
            PacketKind::Tcp | PacketKind::Datagram | PacketKind::Fragment => own,
            PacketKind::TooBig => CS6 | other & LOWER_BITS,
            PacketKind::Arp(_) => CS7,
        }
    }

    /// Returns numbers of the source and the destination host. Each forged address has a number of
    /// its own.
    pub(crate) fn hosts(&self, packet: &Packet) -> (u32, u32) {
        let [mut first, second] = self.of(packet).hosts;
        if first & FORGED != 0 && packet.kind() == PacketKind::Datagram {
            first = FORGED | packet.socket();
        }
        if packet.goes_back() { (second, first) } else { (first, second) }
    }
}

//! Obstacles other than queues: links with a smaller MTU than their senders know, and middleboxes.
//!
//! Sources: RFC 1191 (path MTU discovery), RFC 792 and RFC 1812, 4.3.2.3 (the message), RFC 791
//! (fragments). Linux's TCP sets DF in every packet. A router therefore cannot fragment a packet
//! that is too long: it drops it and tells the sender.
//!
//! - The message takes the flow's path back, starting at the router. If that path does not pass the
//!   router, the message reaches the host after the delays of the links up to there, and meets no
//!   queue.
//! - For ten minutes (`ip_rt_mtu_expires`), a host remembers what it has learned for connections
//!   that it opens later. It also offers no larger MSS in their SYNs, where Linux offers what its
//!   own link takes.
//! - A router sends a message for every packet. Linux's limit of messages per second
//!   (`icmp_ratelimit`) is not modelled.
//! - Middleboxes inspect packets on arrival, before the queue. They regard everything to and from
//!   port 53 as DNS. They read a message's length in the UDP header, so a first fragment shows the
//!   whole length.

use std::collections::BTreeMap;

use narrows_apps::{LossReason, Objection, Sent};
use narrows_units::{Span, Time};

use super::Network;
use crate::agenda::Event;
use crate::packet::{IP_HEADER, Packet, PacketKind, UDP_HEADER};
use crate::plan::{Block, Link as LinkPlan, Middlebox, Queue, Topology};

/// The obstacles of all links, and what hosts know of them.
#[derive(Debug)]
pub(crate) struct Obstacles {
    of_link: Vec<Option<Obstacle>>,
    links: Vec<Place>,
    /// The smallest MTU of all links. A packet up to this length fits everywhere.
    least_mtu: u16,
    /// The MTUs that hosts have been told about, by the start of the path, and when.
    learned: BTreeMap<u32, (u16, Time)>,
}

/// The obstacle at the head of a link.
#[derive(Clone, Debug)]
struct Obstacle {
    mtu: u16,
    middlebox: Middlebox,
}

/// Where a link lies, and its MTU.
#[derive(Clone, Copy, Debug)]
struct Place {
    from: u32,
    to: u32,
    delay: Span,
    mtu: u16,
    /// Whether its queue is `fq`.
    has_fq: bool,
}

/// How long a host remembers a path's MTU (`ip_rt_mtu_expires`).
const REMEMBERED: Span = Span::from_secs(600);
/// DNS (RFC 1035, 4.2).
const DNS_PORT: u16 = 53;

/// Returns for each link whether every packet has to be [checked](Network::obstruct) there.
pub(crate) fn find_obstacles(plan: &Topology<'_>) -> Vec<bool> {
    let mut found: Vec<bool> = plan.links.iter().map(|link| link.middlebox.is_some()).collect();
    // No TCP segment and no QUIC datagram is longer than this.
    let segment = plan.tcp.iter().map(|config| config.mss).max().unwrap_or(0).saturating_add(40);
    let longest = segment.max(plan.quic_payload.saturating_add(IP_HEADER + UDP_HEADER));
    for path in plan.paths {
        let sent = plan.links[path.links[0]].mtu.min(longest);
        for &link in &path.links[1..] {
            found[link] |= plan.links[link].mtu < sent;
        }
    }
    found
}

/// Returns whether the obstacle at a link answers packets, so that new packets start there.
pub(crate) fn answers(link: &LinkPlan, has_obstacle: bool) -> bool {
    has_obstacle
        && link.middlebox.as_ref().is_none_or(|middlebox| {
            middlebox.block_tcp_53 == Some(Block::Reject) || link.mtu < crate::plan::ETHERNET_MTU
        })
}

impl Obstacles {
    pub(crate) fn new(plan: &Topology<'_>, found: &[bool]) -> Self {
        let obstacle = |(link, &found): (&LinkPlan, &bool)| {
            let middlebox = link.middlebox.clone().unwrap_or_default();
            found.then_some(Obstacle { mtu: link.mtu, middlebox })
        };
        let place = |link: &LinkPlan| Place {
            from: link.from as u32,
            to: link.to as u32,
            delay: link.delay,
            mtu: link.mtu,
            has_fq: matches!(link.queue, Queue::Fq(_)),
        };
        Self {
            of_link: plan.links.iter().zip(found).map(obstacle).collect(),
            links: plan.links.iter().map(place).collect(),
            least_mtu: plan.links.iter().map(|link| link.mtu).min().unwrap_or(u16::MAX),
            learned: BTreeMap::new(),
        }
    }
}

impl Network {
    /// Sends a datagram from a host, whole or in fragments.
    pub(crate) fn send_datagram(&mut self, now: Time, packet: Packet) -> Sent {
        if packet.bytes > self.obstacles.least_mtu {
            let links = self.paths.links_of(packet.direction);
            let mtu = links.map(|link| self.obstacles.links[link as usize].mtu).min();
            if let Some(mtu) = mtu
                && packet.bytes > mtu
            {
                let count = packet.fragments(mtu, 0).count();
                let number = self.fragments.add(packet, count as u16);
                let mut sent = Sent::default();
                for fragment in packet.fragments(mtu, number) {
                    sent.packets += 1;
                    sent.bytes += u32::from(fragment.bytes);
                    self.send_seldom(now, fragment);
                }
                return sent;
            }
        }
        let sent = Sent { packets: 1, bytes: packet.bytes.into() };
        self.send_seldom(now, packet);
        sent
    }

    /// Returns the longest segment, without options, that a host sends along a path of the plan on
    /// a connection opened at `now`. It also offers to receive segments of this length.
    pub(crate) fn longest_segment(&self, now: Time, path: u32) -> u16 {
        let first = self.paths.links(path as usize).next();
        let own = first.map_or(u16::MAX, |link| self.obstacles.links[link as usize].mtu);
        let mtu = match self.obstacles.learned.get(&self.paths.start(path)) {
            Some(&(mtu, learned_at)) if now.since(learned_at) < REMEMBERED => own.min(mtu),
            _ => own,
        };
        mtu - TCP_IP_HEADERS
    }

    /// Returns whether the first link of a path of the plan has the queue `fq`.
    pub(crate) fn starts_with_fq(&self, path: u32) -> bool {
        let first = self.paths.links(path as usize).next();
        first.is_some_and(|link| self.obstacles.links[link as usize].has_fq)
    }

    /// Returns the longest packet that the first link of a path of the plan takes.
    pub(crate) fn longest_packet(&self, path: u32) -> u16 {
        let first = self.paths.links(path as usize).next();
        first.map_or(u16::MAX, |link| self.obstacles.links[link as usize].mtu)
    }

    /// Notes that a host has learned the MTU of a direction.
    pub(crate) fn learn_mtu(&mut self, now: Time, direction: u32, mtu: u16) {
        let start = self.paths.start_of(direction);
        let known = self.obstacles.learned.entry(start).or_insert((mtu, now));
        *known = (known.0.min(mtu), now);
    }

    /// Returns why a packet may not enter a link at `at`, if so. Sends the obstacle's answer, if it
    /// has one.
    pub(super) fn obstruct(&mut self, at: Time, packet: &Packet, link: u32) -> Option<LossReason> {
        let Obstacle { mtu, ref middlebox } = *self.obstacles.of_link[link as usize].as_ref()?;
        let reject = middlebox.block_tcp_53;
        if let Some(objection) = self.objection(packet, middlebox) {
            if objection == Objection::Tcp53
                && reject == Some(Block::Reject)
                && let Some(reset) = packet.rejection(&self.pool)
            {
                self.answer(at, reset, link);
            }
            return Some(LossReason::Middlebox(objection));
        }
        if packet.bytes <= mtu {
            return None;
        }
        let router = self.obstacles.links[link as usize].from;
        if packet.is_quic() {
            // QUIC's ends ignore routers' messages, because anybody can forge them (RFC 9000,
            // 14.2.1).
            return Some(LossReason::TooLong);
        }
        self.answer(at, Packet::too_big(packet, mtu, router), link);
        Some(LossReason::TooLong)
    }

    fn objection(&self, packet: &Packet, middlebox: &Middlebox) -> Option<Objection> {
        let (from, to) = packet.ports(self.ports[packet.flow() as usize]);
        let whole = match packet.kind() {
            PacketKind::Tcp => {
                if middlebox.drop_syn_data && packet.is_syn_with_data() {
                    return Some(Objection::SynData);
                }
                let blocks = middlebox.block_tcp_53.is_some() && to == DNS_PORT;
                return blocks.then_some(Objection::Tcp53);
            }
            PacketKind::TooBig => return middlebox.drop_too_big.then_some(Objection::TooBig),
            PacketKind::Arp(_) => return None,
            PacketKind::Fragment if middlebox.drop_fragments => return Some(Objection::Fragment),
            PacketKind::Fragment => self.fragments.whole(packet),
            PacketKind::Datagram => packet,
        };
        let most = middlebox.drop_dns_above?;
        if from != DNS_PORT && to != DNS_PORT {
            return None;
        }
        (whole.bytes - IP_HEADER - UDP_HEADER > most).then_some(Objection::DnsLength)
    }

    /// Sends an answer back at `at` from the head of a link that another packet could not pass.
    fn answer(&mut self, at: Time, mut answer: Packet, link: u32) {
        let places = &self.obstacles.links;
        let node = places[link as usize].from;
        let path: Vec<u32> = self.paths.links_of(answer.direction).collect();
        let last = path.len() - 1;
        let reached = path.iter().position(|&link| places[link as usize].to == node);
        let lands_at = match reached {
            Some(_) => at,
            None => {
                let passed =
                    self.paths.links_of(answer.direction ^ 1).take_while(|&other| other != link);
                passed.fold(at, |at, link| at + places[link as usize].delay)
            }
        };
        let position = reached.unwrap_or(last);
        // It joins the packets that reach the end of that link, and goes on with them.
        answer.hop = position as u8 + 1;
        let answer = self.with_blank_ticket(answer);
        if let Some(next) = self.paths.hop(answer.direction, answer.hop).get() {
            self.links[next as usize].expected += 1;
        }
        let onto = path[position];
        let event_at = self.links[onto as usize].fly(lands_at, answer, &mut self.flights);
        if let Some(event_at) = event_at {
            self.agenda.schedule(event_at, Event::Landing(onto));
        }
    }
}

/// IPv4 and TCP without options.
const TCP_IP_HEADERS: u16 = 40;

#[cfg(test)]
mod tests {
    use narrows_qdisc::fifo::PfifoConfig;
    use narrows_units::Rate;

    use super::*;
    use crate::packet::Stamp;
    use crate::plan::{Framing, Modes, Path, Plan, Queue};
    use narrows_apps::Use;
    use narrows_transport::tcp::{Flags, Segment, Seq, SynOptions};

    /// Builds a network of a host, a router and a server: links 0 and 1 lead there, 2 and 3 back,
    /// 10 ms each, with a middlebox before link `at`.
    fn network(at: usize, block: Block, collapse: bool) -> Network {
        let link = |(index, (from, to)): (usize, (usize, usize))| LinkPlan {
            name: format!("{from}->{to}"),
            from,
            to,
            rate: Rate::from_bps(8_000_000_000).expect("not zero"),
            delay: Span::from_ms(10),
            jitter: None,
            loss: 0.0.into(),
            dns_exempt: false,
            opportunities_ms: None,
            framing: Framing { overhead: 0, min: 0, queue_overhead: 0 },
            queue: Queue::Pfifo(PfifoConfig::default()),
            ring: None,
            mtu: 1500,
            middlebox: (index == at)
                .then(|| Middlebox { block_tcp_53: Some(block), ..Middlebox::default() }),
        };
        let plan = Plan {
            seed: 1,
            end: Time::ZERO + Span::from_secs(1),
            end_when_done: false,
            event_limit: 1000,
            nodes: vec!["host".into(), "router".into(), "server".into()],
            links: [(0, 1), (1, 2), (2, 1), (1, 0)].into_iter().enumerate().map(link).collect(),
            tcp: Vec::new(),
            paths: vec![
                Path { from: 0, to: 2, links: vec![0, 1] },
                Path { from: 2, to: 0, links: vec![2, 3] },
            ],
            applications: Vec::new(),
            queue_monitors: Vec::new(),
            link_monitors: Vec::new(),
            codepoints: Vec::new(),
            delay_monitors: Vec::new(),
            goodput_interval: None,
            flow_samples: Vec::new(),
            flow_monitor: None,
            one_way_monitor: None,
            captures: Vec::new(),
            changes: Vec::new(),
            neighbours: Vec::new(),
            modes: Modes { collapse, ..Modes::default() },
        };
        plan.check().expect("the plan is sound");
        let uses = [0, 1].map(|path| Use { path, bytes: 40, dns: false });
        Network::new(&plan.topology(), &uses)
    }

    /// Returns when packets reach hosts after a SYN to a port, in which direction, and with which
    /// flags.
    fn arrivals(network: &mut Network, port: u16) -> Vec<(Span, u32, Flags)> {
        network.note_flow(0, [0; 2], (0, 1), [50_000, port]);
        let options = SynOptions { mss: 1460, ..SynOptions::default() };
        let syn =
            Segment { seq: Seq(7), flags: Flags::SYN, syn: Some(options), ..Segment::default() };
        let packet = Packet::from_segment(Stamp::new(0, 0, false), &syn, &mut network.pool);
        network.send(Time::ZERO, packet);
        let mut arrivals = Vec::new();
        while let Some((now, event)) = network.agenda.pop() {
            let Event::Landing(link) = event else { panic!("no {event:?} is expected") };
            if let Some(packet) = network.land(now, link) {
                let segment = packet.into_segment(&mut network.pool);
                arrivals.push((now.since(Time::ZERO), packet.direction, segment.flags));
            }
        }
        arrivals
    }

    #[test]
    fn tcp_to_port_53_is_dropped_or_reset_and_other_tcp_passes() {
        // At 8 Gbit/s a byte takes a nanosecond: 44 ns for a SYN with its MSS, 40 ns for a reset.
        let after = |ms, bytes| Span::from_ms(ms) + Span::from_ns(bytes);
        for collapse in [true, false] {
            let passes = arrivals(&mut network(1, Block::Reject, collapse), 80);
            assert_eq!(passes, [(after(20, 88), 0, Flags::SYN)]);
            assert!(arrivals(&mut network(1, Block::Drop, collapse), 53).is_empty());
            let reset = Flags::RST.with(Flags::ACK);
            let rejected = arrivals(&mut network(1, Block::Reject, collapse), 53);
            // The router is 10 ms away.
            assert_eq!(rejected, [(after(20, 84), 1, reset)]);
            let at_home = arrivals(&mut network(0, Block::Reject, collapse), 53);
            assert_eq!(at_home, [(Span::ZERO, 1, reset)]);
        }
    }
}

//! SYNs: their answers, and the SYN cache of the paper (section V), which keeps an entry for each
//! SYN.

use std::net::IpAddr;

use narrows_wire::tcp::{Flags, Options};

use super::client::Client;
use super::cookie::{self, Handshake, NO_SCALE, Offer};
use super::flow::{Flow, FlowKey, State};
use super::segment::{Outgoing, WINDOW, WSCALE};
use super::{Beside, Core, Counter, Verdict};

impl Client<'_> {
    /// "SYN, without ACK, FIN, RST", and "SYN with another of these".
    pub(super) fn on_syn(&mut self, entry: Option<Flow>) -> Verdict {
        let segment = self.segment;
        if segment.flags.0 & (Flags::ACK | Flags::FIN | Flags::RST) != 0 {
            return self.drop(Counter::OddFlags);
        }
        if !segment.checksum_holds() {
            return self.drop(Counter::BadChecksum);
        }
        // The client was switched off, or its router uses a port again: the machine's own TCP knows
        // how to end its old connection. If there is no server, it refuses the connection. It also
        // serves listeners whose connections only it can begin.
        match self.beside() {
            Beside::Server => {}
            Beside::Connection | Beside::TimeWait => {
                self.core.count(Counter::KernelHasIt);
                return Verdict::Pass;
            }
            Beside::NoServer => {
                self.core.count(Counter::SynPassed);
                return Verdict::Pass;
            }
        }
        if !self.core.serves(self.key.client) {
            self.core.count(Counter::SynAside);
            return Verdict::Pass;
        }
        let (interval, burst) =
            (self.core.settings.syn_interval_ns, self.core.settings.syn_burst_ns);
        if !self.conforms(|source| &mut source.syn_at, interval, burst) {
            return self.drop(Counter::SynLimited);
        }

        let v4 = self.key.client.is_ipv4();
        let options = segment.options;
        let timestamps = options.timestamps.is_some();
        let offer = Offer {
            // RFC 9293, section 3.7.1.
            mss: options.mss.unwrap_or(if v4 { 536 } else { 1220 }),
            timestamps,
            wscale: options.window_scale.filter(|_| timestamps).map_or(NO_SCALE, |s| s.min(14)),
            sack: timestamps && options.sack_permitted,
        }
        .kept();
        let settings = &self.core.settings;
        let handshake = Handshake {
            client: segment.client(),
            server: segment.server(),
            client_isn: segment.seq,
        };
        let cookie = cookie::make(settings.keys[0], handshake, offer, self.now.wall);
        let ours = Options {
            mss: Some(if v4 { settings.mss4 } else { settings.mss6 }),
            window_scale: (offer.wscale != NO_SCALE).then_some(WSCALE),
            sack_permitted: offer.sack,
            timestamps: options.timestamps.map(|(tsval, _)| (cookie.tsval, tsval)),
            ..Options::default()
        };
        if self.core.settings.syncache {
            self.cache_syn(entry, cookie, offer);
        }
        self.core.count(Counter::Syn);
        let header = Outgoing {
            from: segment.server(),
            to: segment.client(),
            seq: cookie.isn,
            ack: segment.seq.wrapping_add(1),
            flags: Flags::SYN | Flags::ACK,
            window: WINDOW,
            options: ours,
        };
        self.transmit(&header)
    }

    /// SYN-cache mode: makes an entry SYN if there is room.
    fn cache_syn(&mut self, entry: Option<Flow>, cookie: cookie::Cookie, offer: Offer) {
        let core = &*self.core;
        let bucket = core.buckets[core.bucket(&self.key)];
        match entry.map(|flow| flow.state) {
            Some(State::Syn) => {}
            None if core.in_buckets < core.settings.syncache_limit
                && bucket < core.settings.syncache_bucket_limit => {}
            None => return self.core.count(Counter::SynCacheFull),
            Some(_) => return,
        }
        let first = self.segment.seq.wrapping_add(1);
        let mut flow = Flow::new(State::Syn, first, cookie.isn.wrapping_add(1), offer);
        flow.tsval = cookie.tsval;
        flow.client_tsval = self.segment.options.timestamps.map_or(0, |(tsval, _)| tsval);
        flow.window = self.segment.window.into();
        self.core.keep(self.now, self.key, flow);
    }
}

/// Returns whether a client belongs to the share that is served, by a hash of its address: FNV-1a
/// (IPv4 as ::ffff:a.b.c.d), finalized by `fmix32`. A share of `u32::MAX` means all clients.
pub fn in_share(client: IpAddr, share: u32) -> bool {
    share == u32::MAX || fmix32(fnv1a(cookie::mapped(client))) < share
}

impl Core {
    fn serves(&self, client: IpAddr) -> bool {
        in_share(client, self.settings.share)
    }

    /// Notes that the entry SYN of this connection is gone.
    pub(super) fn leave_bucket(&mut self, key: &FlowKey) {
        let bucket = self.bucket(key);
        self.buckets[bucket] -= 1;
        self.in_buckets -= 1;
    }

    /// Returns the connection's bucket of the SYN cache, by FNV-1a over the key's bytes as in
    /// `struct flow_key`.
    pub(super) fn bucket(&self, key: &FlowKey) -> usize {
        let client = cookie::mapped(key.client).into_iter();
        let bytes = client.chain(key.port.to_be_bytes()).chain([key.server, 0]);
        (fnv1a(bytes) % self.settings.hashsize) as usize
    }
}

/// FNV-1a in 32 bits.
fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    bytes.into_iter().fold(0x811c_9dc5, step)
}

/// MurmurHash3's finalizer (Appleby 2011, smhasher, `MurmurHash3.cpp`). The last bytes that FNV-1a
/// takes hardly reach its high bits; after this, each bit depends on all of them.
fn fmix32(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

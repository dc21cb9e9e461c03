//! What clients send, except SYNs (`syn.rs`) and segments of connections with an entry
//! (`entry.rs`): the tables of PROTOCOL.md, "The verdicts", row by row.

use std::net::IpAddr;

use narrows_wire::tcp::{Flags, Options};

use super::cookie::{self, HEARD, Handshake, Keys, NO_SCALE, Offer};
use super::dns::Query;
use super::flow::{Flow, FlowKey, State};
use super::packet::{self, Ip, Malformed, Segment};
use super::rate;
use super::segment::{self, Outgoing, WINDOW, WSCALE};
use super::{Beside, Connection, Core, Counter, Now, Reason, Verdict, microseconds, nanoseconds};

impl Core {
    /// Takes an IP packet that came in. For [`Verdict::Transmit`] and [`Verdict::Query`], appends
    /// the packet to send to `out`.
    ///
    /// If the machine's own TCP may have taken connections over, use [`Core::on_client_beside`].
    pub fn on_client(&mut self, now: Now, packet: &[u8], out: &mut Vec<Vec<u8>>) -> Verdict {
        self.on_client_beside(now, packet, |_| Beside::Server, out)
    }

    /// Takes an IP packet as [`Core::on_client`] does. `beside` tells what the machine's own
    /// sockets say about a connection.
    pub fn on_client_beside(
        &mut self,
        now: Now,
        packet: &[u8],
        beside: impl Fn(Connection) -> Beside,
        out: &mut Vec<Vec<u8>>,
    ) -> Verdict {
        if !self.settings.active {
            return Verdict::Pass;
        }
        let (key, segment) = match self.read(packet) {
            Ok(Some(read)) => read,
            Ok(None) => return self.on_icmp(now, packet, out),
            Err(Malformed) => {
                self.count(Counter::Malformed);
                return Verdict::Pass;
            }
        };
        let received = self.flows.get(&key).map_or(0, |flow| flow.received(&segment));
        let mut client = Client {
            core: self,
            now,
            key,
            segment: &segment.trimmed(received),
            trimmed: received > 0,
            out,
            beside: &beside,
            strange: false,
        };
        let verdict = client.verdict();
        if client.strange { client.beyond() } else { verdict }
    }

    /// Reads the segment in an IP packet and its connection, if it is for a server.
    pub(super) fn read<'a>(
        &self,
        packet: &'a [u8],
    ) -> Result<Option<(FlowKey, Segment<'a>)>, Malformed> {
        let Some(ip) = Ip::read(packet)? else { return Ok(None) };
        // RFC 791: with a wrong checksum, nobody knows from whom or for whom it is.
        if matches!(ip.protocol, packet::TCP | packet::ICMP) && ip.fragment.is_none() && !ip.holds {
            return Err(Malformed);
        }
        let Some(server) = self.server(ip.destination) else { return Ok(None) };
        if ip.protocol != packet::TCP || ip.fragment.is_some() {
            return Ok(None);
        }
        let (port, to) = Segment::ports(&ip)?;
        if to != self.settings.port {
            return Ok(None);
        }
        let key = FlowKey { client: ip.source, port, server };
        Segment::read(ip).map(|segment| Some((key, segment)))
    }

    /// Returns what the client's SYN offered, if the segment is the first after a handshake of
    /// ours.
    pub(super) fn cookie(&self, now: Now, segment: &Segment<'_>) -> Option<Offer> {
        self.cookie_for(now, segment, segment.seq.wrapping_sub(1))
    }

    /// Returns what the client's SYN offered, if the segment shows the cookie for this initial
    /// sequence number of the client.
    fn cookie_for(&self, now: Now, segment: &Segment<'_>, client_isn: u32) -> Option<Offer> {
        let (client, server) = (segment.client(), segment.server());
        let handshake = Handshake { client, server, client_isn };
        let tsecr = segment.options.timestamps.map(|(_, tsecr)| tsecr);
        let isn = segment.ack.wrapping_sub(1);
        cookie::check(self.cookie_keys(), handshake, isn, tsecr, now.wall)
    }

    /// Returns whether the segment shows a cookie of ours that has expired.
    fn old_cookie(&self, now: Now, segment: &Segment<'_>) -> bool {
        let handshake = Handshake {
            client: segment.client(),
            server: segment.server(),
            client_isn: segment.seq.wrapping_sub(1),
        };
        let tsecr = segment.options.timestamps.map(|(_, tsecr)| tsecr);
        let isn = segment.ack.wrapping_sub(1);
        cookie::was(self.cookie_keys(), handshake, isn, tsecr, now.wall)
    }

    /// Returns whether one more of a client's source conforms to this rate.
    pub(super) fn source_conforms(
        &mut self,
        now: Now,
        client: IpAddr,
        at: impl FnOnce(&mut rate::Source) -> &mut u64,
        interval: u64,
        burst: u64,
    ) -> bool {
        if interval == 0 {
            return true;
        }
        let key = rate::source(client);
        let mut source = self.sources.get(&key).unwrap_or_default();
        let conforms = rate::conforms(at(&mut source), nanoseconds(now), interval, burst);
        self.sources.put(key, source);
        conforms
    }

    fn cookie_keys(&self) -> Keys<'_> {
        Keys { keys: &self.settings.keys, previous_until: self.settings.previous_until }
    }
}

/// One segment of a client, on its way to a verdict.
pub(super) struct Client<'a> {
    pub(super) core: &'a mut Core,
    pub(super) now: Now,
    pub(super) key: FlowKey,
    pub(super) segment: &'a Segment<'a>,
    /// Whether the bytes that were received before are cut off: [`Flow::received`].
    pub(super) trimmed: bool,
    pub(super) out: &'a mut Vec<Vec<u8>>,
    beside: &'a dyn Fn(Connection) -> Beside,
    /// Whether the segment fits nothing that we know of its connection.
    strange: bool,
}

impl<'a> Client<'a> {
    fn verdict(&mut self) -> Verdict {
        let segment = self.segment;
        let entry = self.core.flows.get(&self.key);

        if segment.has(Flags::SYN) {
            return self.on_syn(entry);
        }
        if segment.has(Flags::RST) {
            return self.on_rst(entry);
        }
        if !segment.has(Flags::ACK) {
            return self.drop(Counter::OddFlags);
        }
        // Most segments of long connections belong to the kernel, which checks everything else
        // about them.
        if entry.is_none_or(|flow| flow.is_left()) && self.beside() == Beside::Connection {
            self.core.count(Counter::KernelHasIt);
            return Verdict::Pass;
        }
        let pure_ack = segment.payload.is_empty() && !segment.has(Flags::FIN);
        // A bare ACK without an entry changes nothing.
        if (entry.is_some() || !pure_ack) && !segment.checksum_holds() {
            return self.drop(Counter::BadChecksum);
        }
        match entry {
            Some(flow) if flow.is_probe(segment) => self.on_probe(flow),
            Some(flow) if pure_ack => self.on_ack(flow),
            Some(flow) => self.on_data(flow),
            None => match self.core.cookie(self.now, segment) {
                Some(_) if pure_ack => self.drop(Counter::HandshakeAck),
                Some(offer) => {
                    self.on_first_data(offer, segment.options.timestamps.unwrap_or_default())
                }
                None => self.strange(),
            },
        }
    }

    /// Leaves the segment to [`Self::beyond`].
    pub(super) fn strange(&mut self) -> Verdict {
        self.strange = true;
        Verdict::Drop
    }

    /// Decides about a segment that fits nothing: its connection belongs to the kernel, is over, or
    /// never existed. There may be an entry even if the kernel has the connection, because a late
    /// copy of the first query makes one.
    fn beyond(&mut self) -> Verdict {
        let segment = self.segment;
        let fin = segment.payload.is_empty();
        if matches!(self.beside(), Beside::Connection | Beside::TimeWait) {
            self.core.count(Counter::KernelHasIt);
            return Verdict::Pass;
        }
        // There may be an entry of the port's last connection.
        let probe = segment.may_probe();
        let offer = probe.then(|| self.core.cookie_for(self.now, segment, segment.seq)).flatten();
        if let Some(offer) = offer {
            if !segment.checksum_holds() {
                return self.drop(Counter::BadChecksum);
            }
            return self.acknowledge_probe(offer);
        }
        let entry = self.core.flows.get(&self.key);
        if entry.is_some_and(|flow| flow.state != State::Kernel) {
            return self.drop(Counter::Strange);
        }
        if fin && !segment.has(Flags::FIN) {
            return self.drop(Counter::UnknownAck);
        }
        // If the client has had a segment of an entry, its connection is over. Otherwise it may
        // belong to a new one whose first data was lost or overtaken.
        let heard = segment.options.timestamps.is_some_and(|(_, tsecr)| tsecr & HEARD != 0);
        let counter = if fin { Counter::UnknownFin } else { Counter::UnknownData };
        // An expired cookie also gets a RST.
        if heard || self.core.old_cookie(self.now, segment) {
            self.reset(counter)
        } else {
            self.drop(counter)
        }
    }

    /// The three rows "RST".
    fn on_rst(&mut self, entry: Option<Flow>) -> Verdict {
        match entry {
            None => Verdict::Pass,
            Some(flow) if flow.is_left() => Verdict::Pass,
            Some(_) if !self.segment.checksum_holds() => self.drop(Counter::BadChecksum),
            Some(flow) if flow.is_current(self.segment.seq) => {
                self.core.remove(&self.key);
                self.drop(Counter::Reset)
            }
            Some(_) => self.strange(),
        }
    }

    /// "The first data". `offer` is what the SYN offered; if that has timestamps, these are the
    /// client's and ours.
    pub(super) fn on_first_data(&mut self, offer: Offer, timestamps: (u32, u32)) -> Verdict {
        let segment = self.segment;
        self.core.remove(&self.key);
        if segment.payload.is_empty() {
            return self.fin_and_ack();
        }
        self.on_query(offer, timestamps, None)
    }

    /// "A later query": it follows the reply of the entry.
    pub(super) fn on_later_query(&mut self, before: Flow) -> Verdict {
        let offer = Offer {
            mss: before.mss,
            timestamps: before.timestamps,
            wscale: before.client_wscale,
            sack: before.sack,
        };
        self.on_query(offer, (before.client_tsval, before.tsval), Some(before))
    }

    /// Handles a query on a connection for which `offer` was agreed. `before` is its entry if the
    /// query is not the first.
    fn on_query(&mut self, offer: Offer, timestamps: (u32, u32), before: Option<Flow>) -> Verdict {
        let segment = self.segment;
        let Some(query) = Query::read(segment.payload) else {
            let first = before.is_none();
            return self.hand_off(if first { Reason::Unusual } else { Reason::Second });
        };
        if self.core.settings.axfr_detect && query.is_transfer() {
            return self.hand_off(Reason::Transfer);
        }
        if query.asks_for_keepalive() {
            return self.hand_off(Reason::Keepalive);
        }
        let question = query.hash(self.core.settings.keys[0]);
        let until = self.core.large.get(&question);
        if until.is_some_and(|until| nanoseconds(self.now) < until) {
            return self.hand_off(Reason::Large);
        }
        // The server went away after the handshake: the machine's own TCP asks it, or resets the
        // connection.
        match (self.beside(), before) {
            (Beside::NoServer, _) => return self.hand_off(Reason::Down),
            (Beside::Connection | Beside::TimeWait, Some(_)) => {
                return self.hand_off(Reason::Second);
            }
            _ => {}
        }
        // A connection may use half of the burst; the other half is for new connections. The
        // kernel's TCP serves what a source asks beyond that.
        if before.is_some() {
            if !self.query_conforms_within(self.core.settings.query_burst_ns / 2) {
                return self.hand_off(Reason::Second);
            }
        } else if !self.query_conforms() {
            return self.hand_off(Reason::Rate);
        }

        let path = self.core.path_mss(self.now, self.key.client);
        let mss = path.map_or(offer.mss, |mss| mss.min(offer.mss));
        let mut flow = Flow::new(State::Query, segment.seq, segment.ack, Offer { mss, ..offer });
        let length = segment.payload.len() as u16;
        flow.client_next = segment.seq.wrapping_add(length.into());
        if segment.has(Flags::FIN) {
            flow.note_fin();
        }
        (flow.client_tsval, flow.tsval) = timestamps;
        if let Some(before) = before {
            flow.earlier = before.before(segment.seq);
            self.core.count(Counter::QueryLater);
        } else if offer.timestamps {
            flow.tsval |= HEARD;
        } else {
            (flow.client_tsval, flow.tsval) = (0, 0);
        }
        flow.note(segment);
        flow.query_length = length;
        flow.dns_id = query.id();
        flow.question = question as u32;
        flow.asked_us = microseconds(self.now);
        flow.edns_added = !query.has_opt();
        flow.at_once = self.core.settings.at_once;
        flow.ack_due = flow.at_once;
        flow.stored = self.core.ring.store(&[segment.payload]);
        self.core.keep(self.now, self.key, flow);
        self.query(&query, Counter::Query)
    }

    pub(super) fn query(&mut self, query: &Query<'_>, counter: Counter) -> Verdict {
        self.core.count(counter);
        let message = query.for_server(self.core.settings.edns_size);
        let segment = self.segment;
        let (from, to) = (segment.source_port, segment.destination_port);
        self.out.push(segment::datagram(&segment.ip, from, to, &message));
        Verdict::Query
    }

    /// Sends FIN and ACK, which depend only on the segment.
    fn fin_and_ack(&mut self) -> Verdict {
        self.core.count(Counter::Closed);
        let segment = self.segment;
        let timestamps = segment.options.timestamps.map(|(tsval, tsecr)| (tsecr, tsval));
        let header = Outgoing {
            from: segment.server(),
            to: segment.client(),
            seq: segment.ack,
            ack: segment.seq.wrapping_add(1),
            flags: Flags::FIN | Flags::ACK,
            window: WINDOW,
            options: Options { timestamps, ..Options::default() },
        };
        self.transmit(&header)
    }

    /// Acknowledges a keep-alive probe of a client that has sent nothing since the handshake, in
    /// which `offer` was agreed.
    fn acknowledge_probe(&mut self, offer: Offer) -> Verdict {
        self.core.count(Counter::Probe);
        let segment = self.segment;
        let scaled = offer.wscale != NO_SCALE;
        let timestamps = segment.options.timestamps.filter(|_| offer.timestamps);
        let header = Outgoing {
            from: segment.server(),
            to: segment.client(),
            seq: segment.ack,
            ack: segment.seq.wrapping_add(1),
            flags: Flags::ACK,
            window: if scaled { WINDOW >> WSCALE } else { WINDOW },
            options: Options {
                timestamps: timestamps.map(|(tsval, tsecr)| (tsecr, tsval)),
                ..Options::default()
            },
        };
        self.transmit(&header)
    }

    /// Sends a RST, which depends only on the segment (RFC 9293, section 3.10.7.1).
    pub(super) fn reset(&mut self, counter: Counter) -> Verdict {
        self.core.count(counter);
        let header = Outgoing {
            from: self.segment.server(),
            to: self.segment.client(),
            seq: self.segment.ack,
            ack: 0,
            flags: Flags::RST,
            window: 0,
            options: Options::default(),
        };
        self.transmit(&header)
    }

    pub(super) fn transmit(&mut self, header: &Outgoing) -> Verdict {
        self.out.push(header.packet(&[]));
        Verdict::Transmit
    }

    pub(super) fn drop(&mut self, counter: Counter) -> Verdict {
        self.core.count(counter);
        Verdict::Drop
    }

    pub(super) fn hand_off(&mut self, reason: Reason) -> Verdict {
        self.core.count(match reason {
            Reason::Transfer => Counter::ToKernelTransfer,
            Reason::Keepalive => Counter::ToKernelKeepalive,
            Reason::Unusual => Counter::ToKernelUnusual,
            Reason::Second => Counter::ToKernelSecond,
            Reason::Pipelined => Counter::ToKernelPipelined,
            Reason::Left => Counter::KernelHasIt,
            Reason::Large => Counter::ToKernelLarge,
            Reason::Rate => Counter::QueryLimited,
            Reason::Reply => Counter::ToKernelReply,
            Reason::Silent => Counter::ToKernelSilent,
            Reason::Down => Counter::ToKernelDown,
        });
        Verdict::HandOff(reason)
    }

    /// Returns whether one more query is within the source's rate.
    pub(super) fn query_conforms(&mut self) -> bool {
        self.query_conforms_within(self.core.settings.query_burst_ns)
    }

    /// Returns whether one more query is within the source's rate, with this burst in nanoseconds.
    fn query_conforms_within(&mut self, burst: u64) -> bool {
        let interval = self.core.settings.query_interval_ns;
        self.conforms(|source| &mut source.query_at, interval, burst)
    }

    pub(super) fn conforms(
        &mut self,
        at: impl FnOnce(&mut rate::Source) -> &mut u64,
        interval: u64,
        burst: u64,
    ) -> bool {
        self.core.source_conforms(self.now, self.key.client, at, interval, burst)
    }

    /// Returns what the machine's own sockets say about the connection.
    pub(super) fn beside(&self) -> Beside {
        (self.beside)(self.ends())
    }

    pub(super) fn ends(&self) -> Connection {
        Connection { client: self.segment.client(), server: self.segment.server() }
    }
}

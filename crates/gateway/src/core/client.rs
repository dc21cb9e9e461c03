//! What clients send, but for SYNs (`syn.rs`): the tables of PROTOCOL.md, "The verdicts", row by row.

use narrows_wire::tcp::{Flags, Options};

use super::cookie::{self, HEARD, Handshake, Offer};
use super::dns::{QUERY_MAX, Query};
use super::flow::{AHEAD_MAX, Flow, FlowKey, RECOVERING, State};
use super::packet::{self, Ip, Malformed, Segment};
use super::rate;
use super::segment::{self, Outgoing, WINDOW};
use super::send::answer;
use super::{Connection, Core, Counter, Now, Reason, Verdict, nanoseconds};

impl Core {
    /// Takes an IP packet that came in. Puts out the packet of [`Verdict::Transmit`] and [`Verdict::Query`].
    ///
    /// Where the machine's own TCP may have taken connections over, use [`Core::on_client_beside`].
    pub fn on_client(&mut self, now: Now, packet: &[u8], out: &mut Vec<Vec<u8>>) -> Verdict {
        self.on_client_beside(now, packet, |_| false, out)
    }

    /// The same, with the question whether the machine's own TCP has a connection (a socket other than a listener).
    pub fn on_client_beside(
        &mut self,
        now: Now,
        packet: &[u8],
        kernel_has: impl FnOnce(Connection) -> bool,
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
        let mut client = Client { core: self, now, key, segment: &segment, out, strange: false };
        let verdict = client.verdict();
        if client.strange { client.beyond(kernel_has) } else { verdict }
    }

    /// The segment in an IP packet and its connection, if it is for a server.
    pub(super) fn read<'a>(
        &self,
        packet: &'a [u8],
    ) -> Result<Option<(FlowKey, Segment<'a>)>, Malformed> {
        let Some(ip) = Ip::read(packet)? else { return Ok(None) };
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

    /// What the client's SYN said, if the segment is the first after a handshake of ours.
    pub(super) fn cookie(&self, now: Now, segment: &Segment<'_>) -> Option<Offer> {
        let handshake = Handshake {
            client: segment.client(),
            server: segment.server(),
            client_isn: segment.seq.wrapping_sub(1),
        };
        let tsecr = segment.options.timestamps.map(|(_, tsecr)| tsecr);
        cookie::check(&self.settings.keys, handshake, segment.ack.wrapping_sub(1), tsecr, now.wall)
    }
}

/// One segment of a client, on its way to a verdict.
pub(super) struct Client<'a> {
    pub(super) core: &'a mut Core,
    pub(super) now: Now,
    pub(super) key: FlowKey,
    pub(super) segment: &'a Segment<'a>,
    out: &'a mut Vec<Vec<u8>>,
    /// It fits nothing that is known of its connection.
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
        if !segment.payload.is_empty() && !segment.checksum_holds() {
            return self.drop(Counter::BadChecksum);
        }
        let pure_ack = segment.payload.is_empty() && !segment.has(Flags::FIN);
        match entry {
            Some(flow) if pure_ack => self.on_ack(flow),
            Some(flow) => self.on_data(flow),
            None => match self.core.cookie(self.now, segment) {
                Some(_) if pure_ack => self.drop(Counter::HandshakeAck),
                Some(offer) => self.on_first_data(offer),
                None => self.strange(),
            },
        }
    }

    /// To be looked at by [`Self::beyond`].
    fn strange(&mut self) -> Verdict {
        self.strange = true;
        Verdict::Drop
    }

    /// What fits nothing: of a connection that the kernel has, that is over, or that never was. There may be an entry too
    /// where the kernel has it, as a late copy of the first query makes one.
    fn beyond(&mut self, kernel_has: impl FnOnce(Connection) -> bool) -> Verdict {
        let segment = self.segment;
        let fin = segment.payload.is_empty();
        if kernel_has(self.ends()) {
            self.core.count(Counter::KernelHasIt);
            return Verdict::Pass;
        }
        let entry = self.core.flows.get(&self.key);
        if entry.is_some_and(|flow| flow.state != State::Kernel) {
            return self.drop(Counter::Strange);
        }
        if fin && !segment.has(Flags::FIN) {
            return self.drop(Counter::UnknownAck);
        }
        // Of a connection that is over, if the client has heard of us, and otherwise perhaps of a new one,
        // whose first data was lost or overtaken.
        let heard = segment.options.timestamps.is_some_and(|(_, tsecr)| tsecr & HEARD != 0);
        let counter = if fin { Counter::UnknownFin } else { Counter::UnknownData };
        if heard { self.reset(counter) } else { self.drop(counter) }
    }

    /// The three rows "RST".
    fn on_rst(&mut self, entry: Option<Flow>) -> Verdict {
        match entry {
            None => Verdict::Pass,
            Some(flow) if flow.is_left() => Verdict::Pass,
            Some(flow) if flow.is_current(self.segment.seq) => {
                self.core.remove(&self.key);
                self.drop(Counter::Reset)
            }
            Some(_) => self.strange(),
        }
    }

    /// "The first data"; `offer` is what the SYN said.
    fn on_first_data(&mut self, offer: Offer) -> Verdict {
        let segment = self.segment;
        self.core.remove(&self.key);
        if segment.payload.is_empty() {
            return self.fin_and_ack();
        }
        let Some(query) = Query::read(segment.payload) else {
            return self.hand_off(Reason::Unusual);
        };
        if self.core.settings.axfr_detect && query.is_transfer() {
            return self.hand_off(Reason::Transfer);
        }
        let until = self.core.large.get(&query.hash(self.core.settings.keys[0]));
        if until.is_some_and(|until| nanoseconds(self.now) < until) {
            return self.hand_off(Reason::Large);
        }
        let settings = &self.core.settings;
        let (interval, burst) = (settings.query_interval_ns, settings.query_burst_ns);
        if !self.conforms(|source| &mut source.query_at, interval, burst) {
            return self.drop(Counter::QueryLimited);
        }

        let path = self.core.path_mss(self.now, self.key.client);
        let mss = path.map_or(offer.mss, |mss| mss.min(offer.mss));
        let mut flow = Flow::new(State::Query, segment.seq, segment.ack, Offer { mss, ..offer });
        let length = segment.payload.len() as u16;
        flow.client_next = segment.seq.wrapping_add(length.into());
        if segment.has(Flags::FIN) {
            flow.note_fin();
        }
        if let Some((tsval, tsecr)) = segment.options.timestamps {
            (flow.client_tsval, flow.tsval) = (tsval, tsecr | HEARD);
        }
        flow.note(segment);
        flow.query_length = length;
        flow.dns_id = query.id();
        flow.edns_added = !query.has_opt();
        flow.stored = self.core.ring.store(&[segment.payload]);
        self.core.keep(self.now, self.key, flow);
        self.query(&query, Counter::Query)
    }

    /// "Data on an entry": data, FIN or both.
    fn on_data(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        let first = segment.seq == flow.query_seq;
        if flow.state == State::Syn && first && segment.ack == flow.server_seq {
            return self.on_first_data(Offer {
                mss: flow.mss,
                timestamps: flow.timestamps,
                wscale: flow.client_wscale,
                sack: flow.sack,
            });
        }
        if !first || flow.state == State::Syn {
            if let Some(offer) = self.core.cookie(self.now, segment) {
                return self.on_first_data(offer);
            }
        }
        let next = segment.seq == flow.client_next;
        let length = segment.payload.len();
        let data = length > 0;
        let at_end = segment.ack == flow.end();
        let complete = at_end || segment.ack == flow.end().wrapping_add(1);
        if data && first && self.misses_some(&flow) {
            if let Some(query) = self.same_query(&flow) {
                flow.note(segment);
                flow = self.core.missed(self.ends(), flow, segment.ack);
                flow.again = true;
                self.core.keep(self.now, self.key, flow);
                return self.query(&query, Counter::QueryAgain);
            }
        }
        match flow.state {
            // Linux puts what it sends again and what comes behind it into one segment.
            State::Query if first && data && length != usize::from(flow.query_length) => {
                self.leave_to_kernel(flow)
            }
            State::Query if data && first => self.on_query_again(flow),
            // Nothing comes behind a FIN.
            State::Query if flow.client_fin => self.strange(),
            State::Query if data && next && self.core.stored(&flow).is_some() => {
                self.leave_to_kernel(flow)
            }
            State::Query if next && !data => {
                flow.note(segment);
                flow.note_fin();
                self.core.keep(self.now, self.key, flow);
                self.drop(Counter::Ack)
            }
            State::Replied | State::Idle | State::Closing if data && first => {
                self.on_reply_missed(flow)
            }
            State::Replied | State::Idle
                if flow.ahead_length > 0 && at_end && segment.seq == flow.behind_ahead() =>
            {
                self.hand_off(Reason::Pipelined)
            }
            State::Replied
                if data
                    && (next || segment.seq == flow.behind_ahead())
                    && flow.offset(segment.ack) < flow.reply_length.into() =>
            {
                self.keep_ahead(flow)
            }
            // Its FIN is acknowledged when the client has the reply: until then it is to ask again.
            State::Replied
                if next && !data && flow.offset(segment.ack) < flow.reply_length.into() =>
            {
                flow.state = State::Closing;
                flow.query_unacked = true;
                flow.note(segment);
                flow.note_fin();
                self.core.keep(self.now, self.key, flow);
                self.core.count(Counter::Ack);
                let header = Outgoing {
                    seq: flow.end(),
                    ack: flow.query_seq,
                    flags: Flags::ACK | Flags::FIN,
                    ..answer(self.ends(), &flow)
                };
                self.transmit(&header)
            }
            State::Replied | State::Idle if data && next && at_end => self.hand_off(Reason::Second),
            State::Replied | State::Idle if next && at_end => {
                flow.state = State::Closing;
                // Who acknowledges our FIN has the acknowledgement that comes with it.
                flow.query_unacked = false;
                self.on_fin(flow)
            }
            // Before the end, its ACK would tell a client that misses some of the reply that it need not ask again.
            State::Closing if !data && complete => {
                let noted = u32::from(flow.client_fin);
                match segment.seq == flow.client_next.wrapping_sub(noted) {
                    true => self.on_fin(flow),
                    false => self.strange(),
                }
            }
            State::Closing if next && complete => {
                self.core.remove(&self.key);
                self.reset(Counter::Closed)
            }
            // The query again, or what comes behind it: the kernel may have its socket at any moment.
            State::Slow | State::Kernel
                if segment.ack == flow.server_seq
                    && segment.seq.wrapping_sub(flow.query_seq) <= WINDOW.into() =>
            {
                self.hand_off(Reason::Left)
            }
            _ => self.strange(),
        }
    }

    /// Whether the client misses a part of a reply that the ring has. A packet of its own brings it one segment, and
    /// only one of the server's brings it all: the server is asked again, unless it was already, in vain.
    fn misses_some(&self, flow: &Flow) -> bool {
        let missing = flow.end().wrapping_sub(self.segment.ack) as usize;
        matches!(flow.state, State::Replied | State::Closing)
            && !flow.again
            && (1..=usize::from(flow.reply_length)).contains(&missing)
            && self.core.ring.at(flow.stored, flow.reply_length.into()).is_some()
    }

    /// The query of the entry, if that is what this segment has.
    fn same_query(&self, flow: &Flow) -> Option<Query<'a>> {
        let payload = self.segment.payload;
        let same = payload.len() == usize::from(flow.query_length);
        Query::read(payload).filter(|query| same && query.id() == flow.dns_id)
    }

    /// More than the one query that is with the server: the kernel's TCP is to answer all of it.
    fn leave_to_kernel(&mut self, mut flow: Flow) -> Verdict {
        if self.segment.ack != flow.server_seq {
            return self.strange();
        }
        flow.state = State::Slow;
        flow.note(self.segment);
        self.core.keep(self.now, self.key, flow);
        self.hand_off(Reason::Pipelined)
    }

    /// What the client sends behind its query when the reply has left, but has not come to it.
    fn keep_ahead(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        let payload = segment.payload;
        let mut before = usize::from(flow.ahead_length);
        if segment.seq == flow.client_next {
            // The same again, or the first.
            if before > payload.len() {
                flow.note(segment);
                self.core.keep(self.now, self.key, flow);
                return self.drop(Counter::Kept);
            }
            before = 0;
        }
        if segment.has(Flags::FIN) || payload.len() > QUERY_MAX || before > AHEAD_MAX - QUERY_MAX {
            return self.strange();
        }
        let settings = &self.core.settings;
        let (interval, burst) = (settings.query_interval_ns, settings.query_burst_ns);
        if !self.conforms(|source| &mut source.query_at, interval, burst) {
            return self.drop(Counter::QueryLimited);
        }
        let kept = match before {
            0 => Some(Vec::new()),
            _ => self.core.ring.at(flow.ahead, before).map(<[u8]>::to_vec),
        };
        let Some(kept) = kept else { return self.strange() };
        flow.ahead = self.core.ring.store(&[&kept, payload]);
        flow.ahead_length = (before + payload.len()) as u16;
        flow.note(segment);
        self.core.keep(self.now, self.key, flow);
        self.drop(Counter::Kept)
    }

    /// "QUERY, `seq == query_seq`, same length".
    fn on_query_again(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        let Some(query) = self.same_query(&flow) else {
            return self.strange();
        };
        flow.note(segment);
        if segment.has(Flags::FIN) {
            flow.note_fin();
        }
        self.core.keep(self.now, self.key, flow);
        self.query(&query, Counter::QueryAgain)
    }

    /// The query again, after the reply was sent: the client misses a part of it, our FIN, or our
    /// acknowledgement.
    fn on_reply_missed(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        let length = usize::from(flow.reply_length);
        let closing = flow.state == State::Closing;
        let offset = match flow.offset(segment.ack) {
            offset if offset < length => offset,
            offset if offset == length + usize::from(closing) => {
                if !closing {
                    flow.state = State::Idle;
                }
                self.core.count(Counter::Ack);
                return self.acknowledge_query(flow);
            }
            offset if closing && offset == length => offset,
            _ => 0,
        };
        // An IDLE connection's reply was acknowledged as a whole.
        if flow.state == State::Idle {
            return self.strange();
        }
        flow.note(segment);
        let place = flow.server_seq.wrapping_add(offset as u32);
        flow = self.core.missed(self.ends(), flow, place);
        match self.core.reply_segment(self.ends(), &flow, offset) {
            Some(packet) => {
                self.core.keep(self.now, self.key, flow);
                self.core.count(Counter::Resent);
                self.out.push(packet);
                Verdict::Transmit
            }
            None => {
                self.core.remove(&self.key);
                self.reset(Counter::ResendGone)
            }
        }
    }

    /// An ACK of all that the client has sent, for a query that is in doubt.
    fn acknowledge_query(&mut self, mut flow: Flow) -> Verdict {
        flow.note(self.segment);
        // Of the client's FIN too: that this is lost nothing would say, so it is sent as often as it is missed.
        flow.query_unacked &= flow.state == State::Closing && flow.client_fin;
        self.core.keep(self.now, self.key, flow);
        let header =
            Outgoing { seq: self.segment.ack, ack: flow.client_next, ..answer(self.ends(), &flow) };
        self.transmit(&header)
    }

    /// The client's FIN, its first or the same again, in state CLOSING.
    fn on_fin(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        flow.note(segment);
        flow.note_fin();
        if segment.ack == flow.end().wrapping_add(1) {
            self.core.remove(&self.key);
            self.core.count(Counter::Closed);
        } else {
            self.core.keep(self.now, self.key, flow);
            self.core.count(Counter::Ack);
        }
        let ours = if segment.ack == flow.end() { Flags::FIN } else { 0 };
        let header = Outgoing {
            seq: segment.ack,
            ack: flow.client_next,
            flags: Flags::ACK | ours,
            ..answer(self.ends(), &flow)
        };
        self.transmit(&header)
    }

    /// "Acknowledgements": a pure ACK on an entry.
    fn on_ack(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        if flow.state == State::Syn {
            return self.drop(Counter::HandshakeAck);
        }
        let replied = matches!(flow.state, State::Replied | State::Idle | State::Closing);
        let length = usize::from(flow.reply_length);
        let offset = flow.offset(segment.ack);
        if flow.is_left() || !flow.is_current(segment.seq) || (replied && offset > length + 1) {
            return self.strange();
        }
        let closing = flow.state == State::Closing;
        // The client has the reply: the kernel's TCP is to have what was kept.
        let kept = flow.ahead_length > 0 && segment.seq == flow.behind_ahead();
        if replied && !closing && offset == length && kept {
            return self.hand_off(Reason::Pipelined);
        }
        self.core.count(Counter::Ack);
        flow.note(segment);
        let mut repeat = false;
        if replied && (offset < length || (closing && offset == length)) {
            if segment.ack == flow.acked && flow.repeats < RECOVERING {
                flow.repeats += 1;
                repeat = flow.repeats == 3;
            } else if offset > flow.offset(flow.acked) {
                flow.acked = segment.ack;
                repeat = flow.repeats >= RECOVERING;
                flow.repeats = 0;
            }
            if repeat {
                flow.repeats = RECOVERING;
            }
        }
        if flow.state == State::Replied && offset == length {
            flow.state = State::Idle;
        }
        if replied && offset == length + usize::from(closing) {
            if flow.query_unacked {
                return self.acknowledge_query(flow);
            }
            if closing && flow.client_fin {
                self.core.remove(&self.key);
                return self.drop(Counter::Closed);
            }
        }
        self.core.keep(self.now, self.key, flow);
        match repeat.then(|| self.core.reply_segment(self.ends(), &flow, offset)).flatten() {
            Some(packet) => {
                self.core.count(Counter::Resent);
                self.out.push(packet);
                Verdict::Transmit
            }
            None => Verdict::Drop,
        }
    }

    fn query(&mut self, query: &Query<'_>, counter: Counter) -> Verdict {
        self.core.count(counter);
        let message = query.for_server(self.core.settings.edns_size);
        let segment = self.segment;
        let (from, to) = (segment.source_port, segment.destination_port);
        self.out.push(segment::datagram(&segment.ip, from, to, &message));
        Verdict::Query
    }

    /// FIN and ACK, by the segment alone.
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

    /// RST, by the segment alone (RFC 9293, section 3.10.7.1).
    fn reset(&mut self, counter: Counter) -> Verdict {
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

    fn hand_off(&mut self, reason: Reason) -> Verdict {
        self.core.count(match reason {
            Reason::Transfer => Counter::ToKernelTransfer,
            Reason::Unusual => Counter::ToKernelUnusual,
            Reason::Second => Counter::ToKernelSecond,
            Reason::Pipelined => Counter::ToKernelPipelined,
            Reason::Left => Counter::KernelHasIt,
            Reason::Large => Counter::ToKernelLarge,
            Reason::Reply => Counter::ToKernelReply,
        });
        Verdict::HandOff(reason)
    }

    pub(super) fn conforms(
        &mut self,
        at: impl FnOnce(&mut rate::Source) -> &mut u64,
        interval: u64,
        burst: u64,
    ) -> bool {
        if interval == 0 {
            return true;
        }
        let key = rate::source(self.key.client);
        let mut source = self.core.sources.get(&key).unwrap_or_default();
        let conforms = rate::conforms(at(&mut source), nanoseconds(self.now), interval, burst);
        self.core.sources.put(key, source);
        conforms
    }

    fn ends(&self) -> Connection {
        Connection { client: self.segment.client(), server: self.segment.server() }
    }
}

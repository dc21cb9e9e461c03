//! Segments of connections that have an entry: PROTOCOL.md, "Data on an entry" and
//! "Acknowledgements", row by row.

use narrows_wire::tcp::Flags;

use super::client::Client;
use super::cookie::Offer;
use super::dns::{QUERY_MAX, Query};
use super::flow::{AHEAD_MAX, Flow, RECOVERING, State};
use super::segment::{Outgoing, WINDOW};
use super::send::answer;
use super::{Counter, Reason, Verdict, microseconds};

impl<'a> Client<'a> {
    /// "Data on an entry": data, FIN or both.
    pub(super) fn on_data(&mut self, flow: Flow) -> Verdict {
        let segment = self.segment;
        let first = segment.seq == flow.query_seq;
        if !segment.payload.is_empty() && flow.is_earlier(segment.seq, segment.ack) {
            return self.on_earlier(&flow);
        }
        if flow.state == State::Syn && first && segment.ack == flow.server_seq {
            // The client may leave out what it offered. Then its SYN's timestamps hold.
            let timestamps = segment.options.timestamps.unwrap_or((flow.client_tsval, flow.tsval));
            let offer = Offer {
                mss: flow.mss,
                timestamps: flow.timestamps,
                wscale: flow.client_wscale,
                sack: flow.sack,
            };
            return self.on_first_data(offer, timestamps);
        }
        if !first || flow.state == State::Syn {
            if let Some(offer) = self.core.cookie(self.now, segment) {
                return self.on_first_data(offer, segment.options.timestamps.unwrap_or_default());
            }
        }
        if self.at_query(&flow) && self.misses_some(&flow) {
            if let Some(query) = self.same_query(&flow).filter(|_| self.query_conforms()) {
                return self.ask_again(flow, &query);
            }
        }
        match flow.state {
            State::Query => self.on_data_in_query(flow),
            State::Replied | State::Idle => self.on_data_in_replied(flow),
            State::Closing => self.on_data_in_closing(flow),
            State::Slow | State::Kernel => self.on_data_for_kernel(&flow),
            State::Syn => self.strange(),
        }
    }

    fn on_data_in_query(&mut self, mut flow: Flow) -> Verdict {
        if self.at_query(&flow) {
            return self.on_query_again(flow);
        }
        // Nothing follows a FIN.
        if !self.at_next(&flow) || flow.client_fin {
            return self.strange();
        }
        // Half-close: the reply acknowledges it and carries our FIN.
        if self.segment.payload.is_empty() {
            flow.note(self.segment);
            flow.note_fin();
            self.core.keep(self.now, self.key, flow);
            return self.drop(Counter::Ack);
        }
        // Pipelined.
        match self.core.stored(&flow) {
            Some(_) => self.leave_to_kernel(flow, Reason::Pipelined),
            None => self.strange(),
        }
    }

    /// REPLIED and IDLE.
    fn on_data_in_replied(&mut self, mut flow: Flow) -> Verdict {
        let data = !self.segment.payload.is_empty();
        if self.at_query(&flow) {
            return self.on_reply_missed(flow);
        }
        if flow.ahead_length > 0 && self.has_reply(&flow) && self.at_kept_end(&flow) {
            return self.hand_off(Reason::Pipelined);
        }
        if flow.state == State::Replied && self.lacks_some(&flow) {
            if data && (self.at_next(&flow) || self.at_kept_end(&flow)) {
                return self.keep_ahead(flow);
            }
            return match self.at_next(&flow) {
                true => self.on_early_fin(flow),
                false => self.strange(),
            };
        }
        if !self.at_next(&flow) || !self.has_reply(&flow) {
            return self.strange();
        }
        if data {
            return match self.core.settings.later_queries {
                true => self.on_later_query(flow),
                false => self.hand_off(Reason::Second),
            };
        }
        flow.state = State::Closing;
        // A client that acknowledges our FIN also has the acknowledgement that came with it.
        flow.query_unacked = false;
        self.on_fin(flow)
    }

    fn on_data_in_closing(&mut self, mut flow: Flow) -> Verdict {
        let complete = self.has_reply(&flow) || self.has_our_fin(&flow);
        if self.at_query(&flow) {
            return self.on_reply_missed(flow);
        }
        // A second query behind our FIN: nobody will answer it.
        if !self.segment.payload.is_empty() {
            if !self.at_next(&flow) || !complete {
                return self.strange();
            }
            self.core.remove(&self.key);
            return self.reset(Counter::Closed);
        }
        // The client's FIN, or a copy of it because our ACK was lost.
        if self.segment.seq != flow.client_next.wrapping_sub(flow.client_fin.into()) {
            return self.strange();
        }
        if complete {
            return self.on_fin(flow);
        }
        // Before the end, an ACK of the FIN would tell a client that misses part of the reply that
        // it need not ask again. If its query was acknowledged at once, it can only ask with its
        // FIN.
        if !flow.at_once || !self.lacks_some(&flow) {
            return self.strange();
        }
        flow.note_fin();
        self.on_reply_missed(flow)
    }

    /// SLOW and KERNEL: the query again, or what follows it. The kernel may get its socket at any
    /// moment.
    fn on_data_for_kernel(&mut self, flow: &Flow) -> Verdict {
        let segment = self.segment;
        let within = segment.seq.wrapping_sub(flow.query_seq) <= WINDOW.into();
        match segment.ack == flow.server_seq && within {
            true => self.hand_off(Reason::Left),
            false => self.strange(),
        }
    }

    /// Data at `query_seq`.
    fn at_query(&self, flow: &Flow) -> bool {
        !self.segment.payload.is_empty() && self.segment.seq == flow.query_seq
    }

    /// `seq == client_next`.
    fn at_next(&self, flow: &Flow) -> bool {
        self.segment.seq == flow.client_next
    }

    /// `seq == kept_end`.
    fn at_kept_end(&self, flow: &Flow) -> bool {
        self.segment.seq == flow.behind_ahead()
    }

    /// `server_seq <= ack < end`: the client lacks some of the reply.
    fn lacks_some(&self, flow: &Flow) -> bool {
        flow.offset(self.segment.ack) < flow.reply_length.into()
    }

    /// `ack == end`.
    fn has_reply(&self, flow: &Flow) -> bool {
        self.segment.ack == flow.end()
    }

    /// `ack == end + 1`.
    fn has_our_fin(&self, flow: &Flow) -> bool {
        self.segment.ack == flow.end().wrapping_add(1)
    }

    /// The server gets the query again, because one datagram of it can bring all that the client
    /// lacks.
    fn ask_again(&mut self, mut flow: Flow, query: &Query<'_>) -> Verdict {
        flow.note(self.segment);
        flow = self.core.missed(self.ends(), flow, self.segment.ack);
        flow.again = true;
        self.core.keep(self.now, self.key, flow);
        self.query(query, Counter::QueryAgain)
    }

    /// REPLIED: the client is done before it has the reply. Its FIN is not acknowledged until then,
    /// so that it goes on asking.
    fn on_early_fin(&mut self, mut flow: Flow) -> Verdict {
        flow.state = State::Closing;
        flow.query_unacked = !flow.at_once;
        flow.note(self.segment);
        flow.note_fin();
        self.core.keep(self.now, self.key, flow);
        self.core.count(Counter::Ack);
        let header = Outgoing {
            seq: flow.end(),
            ack: flow.acknowledged(),
            flags: Flags::ACK | Flags::FIN,
            ..answer(self.ends(), &flow)
        };
        self.transmit(&header)
    }

    /// Handles a query that the client sends again although it has the reply: a late copy, or our
    /// acknowledgement was lost.
    fn on_earlier(&mut self, flow: &Flow) -> Verdict {
        self.core.count(Counter::QueryEarlier);
        let fin = u32::from(flow.state == State::Closing);
        let header = Outgoing {
            seq: flow.end().wrapping_add(fin),
            ack: flow.query_seq,
            ..answer(self.ends(), flow)
        };
        self.transmit(&header)
    }

    /// Handles a keep-alive probe on an entry. This is no sign that the client wants anything, so
    /// the entry does not last longer for it.
    pub(super) fn on_probe(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        self.core.count(Counter::Probe);
        flow.note(segment);
        let (offset, length) = (flow.offset(segment.ack), usize::from(flow.reply_length));
        let closing = flow.state == State::Closing;
        // It waits for the reply, or lacks some of it: it has to go on asking.
        let waits = matches!(flow.state, State::Query | State::Slow) || offset < length;
        if !waits {
            flow.query_unacked = false;
        }
        if !waits && flow.state == State::Replied {
            flow.state = State::Idle;
        }
        self.core.flows.put(self.key, flow);
        let header = Outgoing {
            seq: if waits { flow.end().wrapping_add(closing.into()) } else { segment.ack },
            ack: if waits { flow.acknowledged() } else { flow.client_next },
            // Ours was lost.
            flags: Flags::ACK | if !waits && closing && offset == length { Flags::FIN } else { 0 },
            ..answer(self.ends(), &flow)
        };
        self.transmit(&header)
    }

    /// Returns whether the client misses part of a reply that the ring has. One packet of the
    /// client can bring it only one segment, but one packet of the server can bring all of them. So
    /// the server is asked again, unless that was already tried.
    fn misses_some(&self, flow: &Flow) -> bool {
        let missing = flow.end().wrapping_sub(self.segment.ack) as usize;
        matches!(flow.state, State::Replied | State::Closing)
            && !flow.again
            && (1..=usize::from(flow.reply_length)).contains(&missing)
            && self.core.ring.at(flow.stored, flow.reply_length.into()).is_some()
    }

    /// Returns the query of the entry, if this segment contains it.
    fn same_query(&self, flow: &Flow) -> Option<Query<'a>> {
        let payload = self.segment.payload;
        let same = payload.len() == usize::from(flow.query_length);
        Query::read(payload).filter(|query| same && query.id() == flow.dns_id)
    }

    /// The kernel's TCP has to answer, because the server did not in time or because there is more
    /// than one query.
    fn leave_to_kernel(&mut self, mut flow: Flow, why: Reason) -> Verdict {
        if self.segment.ack != flow.server_seq {
            return self.strange();
        }
        flow.state = State::Slow;
        flow.note(self.segment);
        self.core.keep(self.now, self.key, flow);
        self.hand_off(why)
    }

    /// Keeps what the client sends behind its query after the reply has left but before it arrived.
    fn keep_ahead(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        let payload = segment.payload;
        let mut before = usize::from(flow.ahead_length);
        if segment.seq == flow.client_next {
            // This is the first data, or data that the client sent again from the start.
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
        if !self.query_conforms() {
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

    /// QUERY: data at the query's place.
    fn on_query_again(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        // Linux joins what it sends again with what follows it in one segment.
        if segment.payload.len() != usize::from(flow.query_length) {
            return self.leave_to_kernel(flow, Reason::Pipelined);
        }
        if self.same_query(&flow).is_none() {
            return self.strange();
        }
        // A server may leave a query over UDP unanswered, as its rate limit does, or the datagram
        // may be lost. A client that has proven its address gets an answer over TCP.
        if microseconds(self.now).wrapping_sub(flow.asked_us) >= self.core.settings.patience_us {
            // After about ten in a second, the client's queries go over TCP at once, for up to ten
            // seconds.
            self.conforms(|source| &mut source.query_at, 100_000_000, 10_000_000_000);
            return self.leave_to_kernel(flow, Reason::Silent);
        }
        flow.note(segment);
        if segment.has(Flags::FIN) {
            flow.note_fin();
        }
        self.core.keep(self.now, self.key, flow);
        // Our ACK was lost: of this query, or of one before it in the same segment.
        if !flow.at_once && !self.trimmed {
            return self.drop(Counter::QueryWaits);
        }
        self.core.count(Counter::QueryWaits);
        let header = Outgoing {
            seq: flow.server_seq,
            ack: flow.acknowledged(),
            ..answer(self.ends(), &flow)
        };
        self.transmit(&header)
    }

    /// Handles a query that comes again after the reply was sent: the client misses part of the
    /// reply, our FIN, or our acknowledgement.
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

    /// Acknowledges everything that the client has sent, because it may not know that its query
    /// arrived.
    fn acknowledge_query(&mut self, mut flow: Flow) -> Verdict {
        flow.note(self.segment);
        // If this also acknowledges the client's FIN, nothing would show its loss. So it is sent as
        // often as the client misses it.
        flow.query_unacked &= flow.state == State::Closing && flow.client_fin;
        self.core.keep(self.now, self.key, flow);
        let header =
            Outgoing { seq: self.segment.ack, ack: flow.client_next, ..answer(self.ends(), &flow) };
        self.transmit(&header)
    }

    /// Handles the client's FIN, the first or a copy, in state CLOSING.
    fn on_fin(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        flow.note(segment);
        flow.note_fin();
        if self.has_our_fin(&flow) {
            self.core.remove(&self.key);
            self.core.count(Counter::Closed);
        } else {
            self.core.keep(self.now, self.key, flow);
            self.core.count(Counter::Ack);
        }
        let ours = if self.has_reply(&flow) { Flags::FIN } else { 0 };
        let header = Outgoing {
            seq: segment.ack,
            ack: flow.client_next,
            flags: Flags::ACK | ours,
            ..answer(self.ends(), &flow)
        };
        self.transmit(&header)
    }

    /// "Acknowledgements": a pure ACK on an entry.
    pub(super) fn on_ack(&mut self, mut flow: Flow) -> Verdict {
        let segment = self.segment;
        if flow.state == State::Syn {
            let handshake = segment.seq == flow.query_seq;
            return if handshake { self.drop(Counter::HandshakeAck) } else { self.strange() };
        }
        let replied = matches!(flow.state, State::Replied | State::Idle | State::Closing);
        let length = usize::from(flow.reply_length);
        let offset = flow.offset(segment.ack);
        if flow.is_left() || !flow.is_current(segment.seq) || (replied && offset > length + 1) {
            return self.strange();
        }
        let closing = flow.state == State::Closing;
        // The client has the reply: the kernel's TCP gets what was kept.
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
}

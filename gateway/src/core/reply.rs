//! What the server sends: PROTOCOL.md, "The reply (tc egress)".

use std::net::{IpAddr, SocketAddr};

use narrows_wire::tcp::{Flags, Options};

use super::dns::{OPT, PREFIX, Query, Reply};
use super::flow::{Flow, FlowKey, State};
use super::packet::{Datagram, Fragment, Ip, UDP, UDP_BYTES, u16_at};
use super::segment::{self, Outgoing};
use super::{Connection, Core, Counter, Now, ReplyVerdict, microseconds, nanoseconds};

/// A fragmented datagram of a server whose last fragment has not come yet.
#[derive(Clone, Debug)]
pub(super) struct Gathering {
    source: IpAddr,
    destination: IpAddr,
    id: u32,
    /// The fragments so far, from the UDP header on.
    bytes: Vec<u8>,
    /// Whether its reply is wanted. Otherwise the rest is dropped as its start was.
    wanted: bool,
}

impl Core {
    /// Takes an IP packet that is about to go out. Appends the packets of [`ReplyVerdict::Sent`],
    /// [`ReplyVerdict::Truncated`] and [`ReplyVerdict::HandOff`] to `out`.
    ///
    /// Fragments of a reply are dropped one by one, and the last one gives the verdict on the
    /// whole. Only a reply that was truncated or is too long gets its verdict with the first
    /// fragment. Fragments are expected in order and without other fragments between them, as Linux
    /// sends them.
    pub fn on_reply(&mut self, now: Now, packet: &[u8], out: &mut Vec<Vec<u8>>) -> ReplyVerdict {
        if !self.settings.active {
            return ReplyVerdict::Pass;
        }
        let Ok(Some(ip)) = Ip::read(packet) else { return ReplyVerdict::Pass };
        let Some(server) = self.server(ip.source) else { return ReplyVerdict::Pass };
        if ip.protocol != UDP {
            return ReplyVerdict::Pass;
        }
        match ip.fragment {
            None => match Datagram::read(ip.payload) {
                Ok(datagram) => self.on_datagram(now, server, &ip, &datagram, false, out),
                Err(_) => ReplyVerdict::Pass,
            },
            Some(fragment) if fragment.offset == 0 => {
                self.on_first_fragment(now, server, &ip, fragment, out)
            }
            Some(fragment) => self.on_fragment(now, server, &ip, fragment, out),
        }
    }

    /// Takes a DNS message of a server to a client, for data paths that have messages without
    /// headers. Decides as [`Core::on_reply`] does, but does not truncate (S9):
    /// [`ReplyVerdict::Pass`] means that the message is for some UDP client.
    pub fn on_message(
        &mut self,
        now: Now,
        ends: Connection,
        message: &[u8],
        out: &mut Vec<Vec<u8>>,
    ) -> ReplyVerdict {
        let Some(server) = self.server(ends.server.ip()) else { return ReplyVerdict::Pass };
        self.on_answer(now, server, ends, message, false, out).unwrap_or(ReplyVerdict::Pass)
    }

    fn on_datagram(
        &mut self,
        now: Now,
        server: u8,
        ip: &Ip<'_>,
        datagram: &Datagram<'_>,
        gathered: bool,
        out: &mut Vec<Vec<u8>>,
    ) -> ReplyVerdict {
        if datagram.source_port != self.settings.port {
            return ReplyVerdict::Pass;
        }
        let ends = Connection {
            client: SocketAddr::new(ip.destination, datagram.destination_port),
            server: SocketAddr::new(ip.source, datagram.source_port),
        };
        match self.on_answer(now, server, ends, datagram.message, gathered, out) {
            Some(verdict) => verdict,
            None => self.truncate(ip, datagram, datagram.message.len(), out),
        }
    }

    /// S9: handles a reply of `length` bytes to any other client.
    fn truncate(
        &mut self,
        ip: &Ip<'_>,
        datagram: &Datagram<'_>,
        length: usize,
        out: &mut Vec<Vec<u8>>,
    ) -> ReplyVerdict {
        let limit = self.settings.truncate_over;
        if limit == 0 || length <= usize::from(limit) {
            return ReplyVerdict::Pass;
        }
        let whole = length == datagram.message.len();
        match Reply::read(datagram.message).and_then(|reply| reply.truncated(whole, limit)) {
            None => ReplyVerdict::Pass,
            Some(short) => {
                self.count(Counter::Truncated);
                let (from, to) = (datagram.source_port, datagram.destination_port);
                out.push(segment::datagram(ip, from, to, &short));
                ReplyVerdict::Truncated
            }
        }
    }

    fn on_first_fragment(
        &mut self,
        now: Now,
        server: u8,
        ip: &Ip<'_>,
        fragment: Fragment,
        out: &mut Vec<Vec<u8>>,
    ) -> ReplyVerdict {
        self.gathering = None;
        let (Some(header), Some(message)) =
            (ip.payload.get(..UDP_BYTES), ip.payload.get(UDP_BYTES..))
        else {
            return ReplyVerdict::Pass;
        };
        let (from, to, length) = (u16_at(header, 0), u16_at(header, 2), u16_at(header, 4));
        if from != self.settings.port {
            return ReplyVerdict::Pass;
        }
        let key = FlowKey { client: ip.destination, port: to, server };
        let ends = Connection {
            client: SocketAddr::new(ip.destination, to),
            server: SocketAddr::new(ip.source, from),
        };
        let whole = usize::from(length).saturating_sub(UDP_BYTES);
        let (verdict, wanted) = match self.entry_of(&key, message) {
            Some(flow) if flow.state == State::Query => {
                if self.is_for_kernel(ends, &flow, message, whole)
                    || !self.may_fill(now, ends, &flow, whole)
                {
                    (self.leave_to_kernel(now, key, ends, flow, (message, whole), out), false)
                } else {
                    (ReplyVerdict::Drop, true)
                }
            }
            Some(flow) => (self.again(now, key, ends, flow, out), false),
            None => {
                let datagram = Datagram { source_port: from, destination_port: to, message };
                match self.truncate(ip, &datagram, whole, out) {
                    ReplyVerdict::Pass => return ReplyVerdict::Pass,
                    verdict => (verdict, false),
                }
            }
        };
        self.gathering = Some(Gathering {
            source: ip.source,
            destination: ip.destination,
            id: fragment.id,
            bytes: ip.payload.to_vec(),
            wanted,
        });
        verdict
    }

    fn on_fragment(
        &mut self,
        now: Now,
        server: u8,
        ip: &Ip<'_>,
        fragment: Fragment,
        out: &mut Vec<Vec<u8>>,
    ) -> ReplyVerdict {
        let Some(mut gathering) = self.gathering.take_if(|gathering| {
            (gathering.source, gathering.destination, gathering.id)
                == (ip.source, ip.destination, fragment.id)
        }) else {
            return ReplyVerdict::Pass;
        };
        if fragment.offset == gathering.bytes.len() {
            gathering.bytes.extend(ip.payload);
            if !fragment.more && gathering.wanted {
                return match Datagram::read(&gathering.bytes) {
                    Ok(datagram) => self.on_datagram(now, server, ip, &datagram, true, out),
                    Err(_) => ReplyVerdict::Drop,
                };
            }
        } else {
            gathering.wanted = false;
        }
        if fragment.more {
            self.gathering = Some(gathering);
        }
        ReplyVerdict::Drop
    }

    /// Returns the entry that a reply belongs to, by its client, its ID and its question.
    fn entry_of(&self, key: &FlowKey, message: &[u8]) -> Option<Flow> {
        let reply = Reply::read(message)?;
        let flow = self.flows.get(key)?;
        let ours = flow.state != State::Syn
            && flow.dns_id == reply.id()
            && reply.is_about(flow.question, &self.settings.keys);
        ours.then_some(flow)
    }

    /// Handles a reply to a query of ours. `gathered`: it came in fragments, and its room in the ring
    /// was granted with the first. Returns `None` if it is not a reply to a query of ours.
    fn on_answer(
        &mut self,
        now: Now,
        server: u8,
        ends: Connection,
        message: &[u8],
        gathered: bool,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<ReplyVerdict> {
        let key = FlowKey { client: ends.client.ip(), port: ends.client.port(), server };
        let flow = self.entry_of(&key, message)?;
        if flow.state != State::Query {
            return Some(self.again(now, key, ends, flow, out));
        }
        let is_long = self.is_for_kernel(ends, &flow, message, message.len());
        let granted = !is_long && (gathered || self.may_fill(now, ends, &flow, message.len()));
        let prepared = granted.then(|| self.prepare(ends, &flow, message)).flatten();
        Some(match prepared {
            Some(flow) => self.send(now, key, ends, flow, out),
            None => {
                let reply = (message, message.len());
                self.leave_to_kernel(now, key, ends, flow, reply, out)
            }
        })
    }

    /// Returns the entry with its reply stored in the ring; `None` if we cannot send the reply.
    fn prepare(&mut self, ends: Connection, flow: &Flow, message: &[u8]) -> Option<Flow> {
        let (header, rest) = Reply::read(message)?.parts(flow.edns_added)?;
        let length = u16::try_from(PREFIX + header.len() + rest.len()).ok()?;
        let mut flow = *flow;
        let prefix = (length - PREFIX as u16).to_be_bytes();
        flow.stored = self.ring.store(&[&prefix, &header, rest]);
        flow.reply_length = length;
        flow.query_unacked = !flow.at_once && usize::from(length) > self.payload_max(ends, &flow);
        (flow.acked, flow.repeats) = (flow.server_seq, 0);
        let close = flow.client_fin || self.settings.close_fin;
        flow.state = if close { State::Closing } else { State::Replied };
        Some(flow)
    }

    /// Returns whether a reply of `length` bytes, which begins with `start`, was truncated or is
    /// longer than what we send.
    fn is_for_kernel(&self, ends: Connection, flow: &Flow, start: &[u8], length: usize) -> bool {
        let length = PREFIX + length - if flow.edns_added { OPT.min(length) } else { 0 };
        let segments = length.div_ceil(self.payload_max(ends, flow));
        Reply::read(start).is_none_or(|reply| reply.is_truncated() || reply.is_refusal())
            || length > u16::MAX.into()
            || length > flow.window as usize
            || segments > self.settings.max_segments.into()
    }

    /// Returns whether a reply of `length` bytes may take room in the ring. Long ones of one source
    /// fill at most an eighth of it a second, and as much at once, so that those of others stay.
    fn may_fill(&mut self, now: Now, ends: Connection, flow: &Flow, length: usize) -> bool {
        const SECOND: u64 = 1_000_000_000;
        let added = if flow.edns_added { OPT } else { 0 };
        if self.settings.query_interval_ns == 0
            || PREFIX + length <= self.payload_max(ends, flow) + added
        {
            return true;
        }
        let interval = (PREFIX + length) as u64 * 8 * SECOND / self.settings.ring as u64;
        self.source_conforms(now, ends.client.ip(), |source| &mut source.ring_at, interval, SECOND)
    }

    /// Returns whether a reply that is no refusal is too large for every client. A client's window,
    /// MSS and path say nothing about the name.
    fn is_large_for_all(&self, ends: Connection, flow: &Flow, start: &[u8], length: usize) -> bool {
        let length = PREFIX + length - if flow.edns_added { OPT.min(length) } else { 0 };
        let ours = if ends.client.is_ipv4() { self.settings.mss4 } else { self.settings.mss6 };
        Reply::read(start).is_some_and(|reply| reply.is_truncated())
            || length > u16::MAX.into()
            || length > usize::from(ours) * usize::from(self.settings.max_segments)
    }

    fn send(
        &mut self,
        now: Now,
        key: FlowKey,
        ends: Connection,
        flow: Flow,
        out: &mut Vec<Vec<u8>>,
    ) -> ReplyVerdict {
        let before = out.len();
        self.latencies.add(microseconds(now).wrapping_sub(flow.asked_us));
        out.extend(self.segments_from(0, ends, &flow));
        match (out.len() - before) as u64 {
            1 => self.count(Counter::Reply),
            segments => {
                self.count(Counter::ReplySegmented);
                self.counters.add(Counter::ReplySegments, segments);
            }
        }
        self.keep(now, key, flow);
        ReplyVerdict::Sent
    }

    /// Returns the reply's segments from byte `offset` on; none if the ring no longer has it.
    fn segments_from(
        &self,
        offset: usize,
        ends: Connection,
        flow: &Flow,
    ) -> impl Iterator<Item = Vec<u8>> {
        let offsets = (offset..flow.reply_length.into()).step_by(self.payload_max(ends, flow));
        offsets.filter_map(move |offset| self.reply_segment(ends, flow, offset))
    }

    /// Handles a reply to a query that already has one. If the server was asked again because the
    /// client misses part of the first reply, that part is sent from the ring, whatever the new
    /// reply says. A single segment is sent twice, because the client's next timeout would take
    /// twice as long.
    fn again(
        &mut self,
        now: Now,
        key: FlowKey,
        ends: Connection,
        mut flow: Flow,
        out: &mut Vec<Vec<u8>>,
    ) -> ReplyVerdict {
        let asked = flow.again && matches!(flow.state, State::Replied | State::Closing);
        let before = out.len();
        if asked {
            flow.again = false;
            out.extend(self.segments_from(flow.offset(flow.acked), ends, &flow));
            if out.len() == before + 1 {
                out.extend_from_within(before..);
            }
        }
        match (out.len() - before) as u64 {
            0 => {
                if asked {
                    self.flows.put(key, flow);
                }
                self.count(Counter::ReplyRepeated);
                ReplyVerdict::Drop
            }
            segments => {
                self.counters.add(Counter::Resent, segments);
                self.keep(now, key, flow);
                ReplyVerdict::Sent
            }
        }
    }

    /// Enters state SLOW: puts out the query as the client's segment again, for [`Core::adopt`].
    /// `reply` is the beginning of the reply, and the length of the whole.
    fn leave_to_kernel(
        &mut self,
        now: Now,
        key: FlowKey,
        ends: Connection,
        mut flow: Flow,
        (start, length): (&[u8], usize),
        out: &mut Vec<Vec<u8>>,
    ) -> ReplyVerdict {
        let refused = Reply::read(start).is_some_and(|reply| reply.is_refusal());
        let large = !refused && self.is_large_for_all(ends, &flow, start, length);
        flow.state = State::Slow;
        self.keep(now, key, flow);
        self.count(if refused { Counter::ToKernelRefused } else { Counter::ToKernelReply });
        let Some(query) = self.ring.at(flow.stored, flow.query_length.into()) else {
            return ReplyVerdict::Drop;
        };
        let timestamps = flow.timestamps.then_some((flow.client_tsval, flow.tsval));
        let scale = if flow.scaled() { flow.client_wscale } else { 0 };
        let header = Outgoing {
            from: ends.client,
            to: ends.server,
            seq: flow.query_seq,
            ack: flow.server_seq,
            flags: Flags::ACK | Flags::PSH | if flow.client_fin { Flags::FIN } else { 0 },
            window: (flow.window >> scale) as u16,
            options: Options { timestamps, ..Options::default() },
        };
        out.push(header.packet(query));
        if let Some(query) = Query::read(query).filter(|_| large) {
            let until = nanoseconds(now).saturating_add(self.settings.large_ns);
            self.large.put(query.hash(self.settings.keys[0]), until);
        }
        ReplyVerdict::HandOff
    }
}

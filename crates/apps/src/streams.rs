//! Streams of datagrams, and what their receivers measure: the table `streams`.
//!
//! Each row covers one period of a stream. It counts packets by the time at which they were *sent*,
//! so every packet sent is either received, lost, or still under way. Jitter is the interarrival
//! jitter of RTP (RFC 3550, 6.4.1 and A.8) without RTP's clock of whole samples; it carries over
//! from row to row. A packet is out of order if one with a higher number arrived before it (RFC
//! 4737, 3.3: Type-P-Reordered).

use narrows_units::settings::any;
use narrows_units::{Span, Time, keys};

use crate::environment::{IP_HEADER, UDP_HEADER};
use crate::table::{Table, rows};
use crate::{Association, Datagram, Dial, Environment, Host, Message, Random, is_moment};

keys! {
    /// A stream of datagrams.
    pub struct Stream {
        /// Its unique name. Its random stream is derived from it.
        name: String = String::new(), any();
        /// The path from the sender to the receiver: an index into the plan's paths.
        there: usize = 0, any();
        /// The path back: an index into the plan's paths.
        back: usize = 0, any();
        /// When its application starts.
        start: Time = Time::ZERO, any();
        /// When its application stops; `None`: at the end of the run.
        stop: Option<Time> = None, any();
    }
}

rows! {
    /// A period of a stream of `udp` or `trace` in which it sent packets, and what happened to
    /// these packets.
    pub(crate) struct StreamsRow as "streams" {
        /// The group that it belongs to.
        group: String [""];
        /// Number of the stream within its group, from 0.
        stream: u32 [""];
        /// When the period begins.
        t_s: f64 ["s"];
        /// How long it is.
        period_s: f64 ["s"];
        /// Packets sent in the period.
        sent_packets: u32 ["packets"];
        /// Total length of these IP packets.
        sent_bytes: u64 ["bytes"];
        /// Packets of these that were received, then or later.
        received_packets: u32 ["packets"];
        /// Total length of the received packets.
        received_bytes: u64 ["bytes"];
        /// Packets of these that were lost; others may still be under way.
        lost_packets: u32 ["packets"];
        /// Packets of these that were received after one that was sent later (RFC 4737, 3.3).
        reordered_packets: u32 ["packets"];
        /// One-way delay, mean; null: none was received.
        delay_mean_ms: f64 ["ms", null];
        /// The shortest one-way delay.
        delay_min_ms: f64 ["ms", null];
        /// The longest one-way delay.
        delay_max_ms: f64 ["ms", null];
        /// Interarrival jitter (RFC 3550, 6.4.1) after the last arrival of these.
        jitter_ms: f64 ["ms", null];
    }
}

/// The IPv4 and UDP headers.
pub(crate) const HEADERS: u16 = IP_HEADER + UDP_HEADER;

/// The most rows of a group.
pub(crate) const MOST_ROWS: u64 = 10_000_000;

/// Checks that all streams of a group are possible. Returns their number.
pub(crate) fn check(streams: &[Stream], environment: &Environment<'_>) -> Result<usize, String> {
    for stream in streams {
        check_one(stream, environment).map_err(|why| format!("{}: {why}", stream.name))?;
    }
    Ok(streams.len())
}

fn check_one(stream: &Stream, environment: &Environment<'_>) -> Result<(), String> {
    environment.check_round_trip(stream.there, stream.back)?;
    if !is_moment(stream.start) {
        return Err("start: is too late".into());
    }
    if stream.stop.is_some_and(|stop| stop <= stream.start) {
        return Err("stop: must be after start".into());
    }
    Ok(())
}

/// Checks that the tables can hold the rows of a group's streams.
pub(crate) fn check_period(
    streams: &[Stream],
    period: Span,
    environment: &Environment<'_>,
) -> Result<(), String> {
    let rows = periods(streams, period, environment);
    if rows > MOST_ROWS {
        return Err(format!("period: {rows} rows are more than the limit of {MOST_ROWS}"));
    }
    Ok(())
}

/// Returns how often a period begins while a group's streams last, in all.
pub(crate) fn periods(streams: &[Stream], period: Span, environment: &Environment<'_>) -> u64 {
    let of_one = |stream: &Stream| {
        let end = stream.stop.map_or(environment.end, |stop| stop.min(environment.end));
        end.since(stream.start).as_ps() / period.as_ps() + 1
    };
    streams.iter().map(of_one).fold(0, u64::saturating_add)
}

/// The streams of a group with their measurements.
#[derive(Debug)]
pub(crate) struct Streams {
    group: String,
    period: Span,
    /// The first stream's socket; the others follow.
    first_socket: u32,
    streams: Vec<Measured>,
}

#[derive(Debug)]
struct Measured {
    association: Association,
    start: Time,
    stop: Option<Time>,
    /// The number of packets sent.
    sent: u32,
    /// The number expected next: one above the highest that has arrived.
    expected: u32,
    jitter: Jitter,
    rows: Vec<Row>,
}

/// A period of a stream: what became of the packets sent in it.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The number of the period.
    period: u32,
    sent: u32,
    sent_bytes: u64,
    received: u32,
    received_bytes: u64,
    lost: u32,
    reordered: u32,
    delay_total_ps: u128,
    delay_min: Span,
    delay_max: Span,
    jitter: f64,
}

/// Interarrival jitter (RFC 3550, A.8).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jitter {
    /// The transit time of the previous packet.
    before: Option<Span>,
    seconds: f64,
}

impl Jitter {
    pub(crate) const fn new() -> Self {
        Self { before: None, seconds: 0.0 }
    }

    /// Adds a packet that took `delay`.
    pub(crate) fn add(&mut self, delay: Span) {
        if let Some(before) = self.before {
            let difference = (delay.as_secs_f64() - before.as_secs_f64()).abs();
            self.seconds += (difference - self.seconds) / 16.0;
        }
        self.before = Some(delay);
    }

    /// Returns the jitter in seconds; zero until two packets have arrived.
    pub(crate) const fn seconds(&self) -> f64 {
        self.seconds
    }
}

impl Streams {
    /// Creates an empty group. `period` is the time that a row covers.
    pub(crate) const fn new(group: String, period: Span) -> Self {
        Self { group, period, first_socket: 0, streams: Vec::new() }
    }

    /// Sets up all streams, and wakes each at its start, with its number. Passes the random numbers
    /// of each to `keep`.
    pub(crate) fn set_up(
        &mut self,
        host: &mut dyn Host,
        streams: &[Stream],
        mut keep: impl FnMut(Random),
    ) {
        self.first_socket = host.take_sockets(streams.len() as u32);
        for (number, stream) in streams.iter().enumerate() {
            let association = associate(host, stream, number as u32, PORT);
            keep(host.random(&stream.name));
            host.wake(stream.start, number as u32);
            self.streams.push(Measured {
                association,
                start: stream.start,
                stop: stream.stop,
                sent: 0,
                expected: 0,
                jitter: Jitter::default(),
                rows: Vec::new(),
            });
        }
    }

    /// Returns the streams' associations.
    pub(crate) fn associations(&self) -> impl Iterator<Item = Association> {
        self.streams.iter().map(|stream| stream.association)
    }

    /// Returns when a stream starts.
    pub(crate) fn start(&self, number: u32) -> Time {
        self.streams[number as usize].start
    }

    /// Returns the number of packets that a stream has sent.
    pub(crate) fn sent(&self, number: u32) -> u32 {
        self.streams[number as usize].sent
    }

    /// Returns whether a stream may send at `at`.
    pub(crate) fn goes_on(&self, number: u32, at: Time) -> bool {
        is_moment(at) && self.streams[number as usize].stop.is_none_or(|stop| at < stop)
    }

    /// Sends a stream's next packet, `ip_bytes` long with its IP header.
    pub(crate) fn send(&mut self, host: &mut dyn Host, number: u32, ip_bytes: u16) {
        let now = host.now();
        let stream = &mut self.streams[number as usize];
        let period = (now.since(stream.start).as_ps() / self.period.as_ps()) as u32;
        if stream.rows.last().is_none_or(|row| row.period != period) {
            stream.rows.push(Row::new(period));
        }
        let row = stream.rows.last_mut().expect("a row was just added");
        row.sent += 1;
        row.sent_bytes += u64::from(ip_bytes);
        let message =
            Message { bytes: u32::from(ip_bytes - HEADERS), tag: stream.sent, notes: split(now) };
        stream.sent = stream.sent.wrapping_add(1);
        host.send_datagram(stream.association, self.first_socket + number, false, &message);
    }

    /// Takes a packet that has arrived.
    pub(crate) fn receive(&mut self, now: Time, datagram: &Datagram) {
        let stream = &mut self.streams[(datagram.socket - self.first_socket) as usize];
        let sent_at = join(datagram.message.notes);
        let delay = now.since(sent_at);
        stream.jitter.add(delay);
        let jitter = stream.jitter.seconds();
        // Numbers wrap around after 2^32 packets, as RTP's do after 2^16 (RFC 3550, A.1).
        let ahead = datagram.message.tag.wrapping_sub(stream.expected) as i32;
        if ahead >= 0 {
            stream.expected = datagram.message.tag.wrapping_add(1);
        }
        let row = stream.row_of(sent_at, self.period);
        row.received += 1;
        row.received_bytes += u64::from(datagram.message.bytes) + u64::from(HEADERS);
        row.reordered += u32::from(ahead < 0);
        row.delay_total_ps += u128::from(delay.as_ps());
        row.delay_min = row.delay_min.min(delay);
        row.delay_max = row.delay_max.max(delay);
        row.jitter = jitter;
    }

    /// Notes that a packet was lost.
    pub(crate) fn lose(&mut self, datagram: &Datagram) {
        let stream = &mut self.streams[(datagram.socket - self.first_socket) as usize];
        stream.row_of(join(datagram.message.notes), self.period).lost += 1;
    }

    /// Returns the table `streams`.
    pub(crate) fn table(&self) -> Table {
        let of_stream = |(number, stream): (usize, &'_ Measured)| {
            let (start, number) = (stream.start, number as u32);
            stream.rows.iter().map(move |row| (number, start, *row)).collect::<Vec<_>>()
        };
        let mean_ms = |row: &Row| row.delay_total_ps as f64 / f64::from(row.received) / 1e9;
        let if_received = |row: &Row, value: f64| if row.received > 0 { value } else { f64::NAN };
        let rows =
            self.streams.iter().enumerate().flat_map(of_stream).map(|(number, start, row)| {
                StreamsRow {
                    group: self.group.clone(),
                    stream: number,
                    t_s: {
                        start.as_secs_f64() + (self.period * u64::from(row.period)).as_secs_f64()
                    },
                    period_s: self.period.as_secs_f64(),
                    sent_packets: row.sent,
                    sent_bytes: row.sent_bytes,
                    received_packets: row.received,
                    received_bytes: row.received_bytes,
                    lost_packets: row.lost,
                    reordered_packets: row.reordered,
                    delay_mean_ms: if_received(&row, mean_ms(&row)),
                    delay_min_ms: if_received(&row, row.delay_min.as_secs_f64() * 1e3),
                    delay_max_ms: if_received(&row, row.delay_max.as_secs_f64() * 1e3),
                    jitter_ms: if_received(&row, row.jitter * 1e3),
                }
            });
        StreamsRow::table(rows)
    }
}

impl Measured {
    /// Returns the row of a packet that was sent at `at`.
    fn row_of(&mut self, at: Time, period: Span) -> &mut Row {
        let number = (at.since(self.start).as_ps() / period.as_ps()) as u32;
        let index = self.rows.partition_point(|row| row.period < number);
        &mut self.rows[index]
    }
}

impl Row {
    const fn new(period: u32) -> Self {
        Self {
            period,
            sent: 0,
            sent_bytes: 0,
            received: 0,
            received_bytes: 0,
            lost: 0,
            reordered: 0,
            delay_total_ps: 0,
            delay_min: Span::MAX,
            delay_max: Span::ZERO,
            jitter: 0.0,
        }
    }
}

/// Creates a flow of datagrams between two ends that one application owns.
pub(crate) fn associate(
    host: &mut dyn Host,
    stream: &Stream,
    number: u32,
    port: u16,
) -> Association {
    host.associate(&Dial {
        there: stream.there,
        back: stream.back,
        server: host.application() as usize,
        port,
        tcp: 0,
        number,
        dns: false,
    })
}

/// Encodes the time at which a packet was sent in the two notes of its message.
pub(crate) const fn split(at: Time) -> [u32; 2] {
    let ps = at.as_ps();
    [(ps >> 32) as u32, ps as u32]
}

/// Decodes the time from a message's notes.
pub(crate) const fn join(notes: [u32; 2]) -> Time {
    Time::from_ps((notes[0] as u64) << 32 | notes[1] as u64)
}

/// The receivers' port: iperf's.
const PORT: u16 = 5001;

#[cfg(test)]
mod tests {
    use super::*;

    /// Transit times of 10, 26, 10 and 10 ms have differences of 16, 16 and 0 ms, each with a
    /// weight of one sixteenth (RFC 3550, 6.4.1).
    #[test]
    fn jitter_is_a_moving_average_of_differences() {
        let mut jitter = Jitter::default();
        for (delay_ms, expected_ms) in [(10, 0.0), (26, 1.0), (10, 1.0 + 15.0 / 16.0)] {
            jitter.add(Span::from_ms(delay_ms));
            assert!((jitter.seconds() * 1e3 - expected_ms).abs() < 1e-9);
        }
        jitter.add(Span::from_ms(10));
        assert!((jitter.seconds() * 1e3 - 31.0 / 16.0 * 15.0 / 16.0).abs() < 1e-9);
    }

    #[test]
    fn moments_travel_unharmed() {
        for ps in [0, 1, u64::from(u32::MAX) + 5, u64::MAX - 1] {
            assert_eq!(join(split(Time::from_ps(ps))), Time::from_ps(ps));
        }
    }
}

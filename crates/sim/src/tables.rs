//! The tables of a run, built from its records.

use narrows_apps::record::Records;
use narrows_apps::table::{Head, Table, rows};
use narrows_link::transmitter::{Bin, Histogram, Waits};
use narrows_qdisc::AverageQueue;
use narrows_units::{Span, Time};

use crate::flow::{Flows, Row};
use crate::monitor::Monitors;
use crate::network::{Neighbours, Network, OneWay};
use crate::paths::Paths;
use crate::plan::{Kind, Plan};

rows! {
    /// A TCP connection of bulk, once, on-off or ftp traffic, as it stood at the end of the run.
    pub struct FlowsRow as "flows" {
        /// Number of the connection, from 0 in the scenario's order.
        flow: u32 [""];
        /// Its name.
        name: String [""];
        /// The traffic group that it belongs to.
        group: String [""];
        /// The node that sends data.
        sender: String [""];
        /// The node that receives data.
        receiver: String [""];
        /// Whether the two ends negotiated ECN.
        ecn: bool [""];
        /// When it was opened; null: its handshake never finished.
        start_s: f64 ["s", null];
        /// When the sender of data had completed the handshake (on a kernel, the end that opened
        /// it); null: never.
        established_s: f64 ["s", null];
        /// When it was closed; null: never.
        end_s: f64 ["s", null];
        /// Data that the receiver has acknowledged.
        bytes_acked: u64 ["bytes"];
        /// Data handed in order to the receiver's application.
        bytes_received: u64 ["bytes"];
        /// Segments that the sender sent: data, SYN, FIN and acknowledgements, retransmissions
        /// included.
        segments_sent: u64 ["segments"];
        /// Segments that the sender retransmitted, including SYNs and tail loss probes.
        segments_retransmitted: u64 ["segments"];
        /// Retransmission timeouts; null: a kernel does not report it.
        timeouts: u32 ["", null];
        /// How often fast recovery was entered; null: a kernel does not report it.
        fast_recoveries: u32 ["", null];
        /// How often ECN reduced the window; null: a kernel does not report it.
        ecn_reductions: u32 ["", null];
        /// Tail loss probes sent; null: a kernel does not report it.
        tail_probes: u32 ["", null];
        /// Window reductions undone as spurious; null: a kernel does not report it.
        undos: u32 ["", null];
        /// Packets that arrived with the CE mark; null: a kernel does not report it.
        marks_received: u64 ["packets", null];
        /// Smoothed round-trip time; null: never measured.
        srtt_ms: f64 ["ms", null];
        /// Smallest round-trip time, with TCP of the last 300 s; null: never measured.
        min_rtt_ms: f64 ["ms", null];
        /// Congestion window at the end of the run.
        cwnd_segments: f64 ["segments", null];
        /// Congestion window, averaged over time.
        cwnd_mean_segments: f64 ["segments", null];
        /// Time in which the sender had data that was not acknowledged or not sent
        /// (`tcpi_busy_time`); null: unknown, as in runs of earlier versions, on kernels before
        /// 4.10, and on a kernel for a connection that never opened.
        busy_s: f64 ["s", null, added];
        /// Part of `busy_s` in which nothing but the receiver's window held the sender back
        /// (`tcpi_rwnd_limited`); null: as for `busy_s`.
        rwnd_limited_s: f64 ["s", null, added];
    }
}

rows! {
    /// The packets with one ECN field that arrived at a queue of `monitor.queue_delays`, within the
    /// window that `[measure]` declares.
    pub(crate) struct QueueDelaysRow as "queue_delays" {
        /// The directed link: `NAME.forward` or `NAME.backward`.
        link: String [""];
        /// Their ECN field on arrival: `not-ect`, `ect0`, `ect1` or `ce`.
        ecn: String [""];
        /// Packets whose transmission began within the window.
        sent_packets: u64 ["packets"];
        /// Those of them that the queue marked (CE).
        marked_packets: u64 ["packets"];
        /// Packets that the queue dropped.
        dropped_packets: u64 ["packets"];
        /// Mean time from arrival until transmission began; null: none was sent.
        wait_mean_ms: f64 ["ms", null];
        /// Median of these times; null: none was sent. Quantiles are exact to 1 %.
        wait_p50_ms: f64 ["ms", null];
        /// Their 95th percentile; null: none was sent.
        wait_p95_ms: f64 ["ms", null];
        /// Their 99th percentile; null: none was sent.
        wait_p99_ms: f64 ["ms", null];
        /// The time that 99.9 % of them do not exceed; null: none was sent, or the run is of an earlier
        /// version.
        wait_p999_ms: f64 ["ms", null, added];
        /// The time that 99.99 % of them do not exceed; null: none was sent, or the run is of an earlier
        /// version.
        wait_p9999_ms: f64 ["ms", null, added];
        /// The longest; null: none was sent.
        wait_max_ms: f64 ["ms", null];
    }
}

rows! {
    /// The packets of a row of `queue_delays` that waited about as long: a bin of a histogram. Every
    /// packet is in one of them. Bins without packets have no row.
    pub(crate) struct QueueDelayBinsRow as "queue_delay_bins" {
        /// The directed link: `NAME.forward` or `NAME.backward`.
        link: String [""];
        /// Their ECN field on arrival: `not-ect`, `ect0`, `ect1` or `ce`.
        ecn: String [""];
        /// The least time from arrival until transmission began.
        from_ms: f64 ["ms"];
        /// The end of the bin, which is at most 1.6 % above, or a nanosecond.
        to_ms: f64 ["ms"];
        /// How many packets waited for `from_ms` or longer, and for less than `to_ms`.
        packets: u64 ["packets"];
        /// The share of the link's packets with this ECN field that waited for `from_ms` or longer.
        at_least_percent: f64 ["%"];
    }
}

rows! {
    /// The packets of one class of a queue of `monitor.queue_delays`, within the window that `[measure]`
    /// declares. Runs whose queues have no classes do not have this table.
    pub(crate) struct ClassDelaysRow as "queue_class_delays" {
        /// The directed link: `NAME.forward` or `NAME.backward`.
        link: String [""];
        /// The class: a band of `prio`, a class of `classes`, a tin of `cake` as tc names it, or `l4s`
        /// or `classic` of `dualpi2`; `@others`: all beyond 126, which only changes of the queue bring.
        class: String [""];
        /// Packets whose transmission began within the window.
        sent_packets: u64 ["packets"];
        /// Those of them that the queue marked (CE).
        marked_packets: u64 ["packets"];
        /// Packets that the queue dropped.
        dropped_packets: u64 ["packets"];
        /// Mean time from arrival until transmission began; null: none was sent.
        wait_mean_ms: f64 ["ms", null];
        /// Median of these times; null: none was sent. Quantiles are exact to 1 %.
        wait_p50_ms: f64 ["ms", null];
        /// Their 95th percentile; null: none was sent.
        wait_p95_ms: f64 ["ms", null];
        /// Their 99th percentile; null: none was sent.
        wait_p99_ms: f64 ["ms", null];
        /// The time that 99.9 % of them do not exceed; null: none was sent.
        wait_p999_ms: f64 ["ms", null];
        /// The time that 99.99 % of them do not exceed; null: none was sent.
        wait_p9999_ms: f64 ["ms", null];
        /// The longest; null: none was sent.
        wait_max_ms: f64 ["ms", null];
    }
}

rows! {
    /// The packets of a row of `queue_class_delays` that waited about as long: a bin of a histogram. Every
    /// packet is in one of them. Bins without packets have no row.
    pub(crate) struct ClassDelayBinsRow as "queue_class_delay_bins" {
        /// The directed link: `NAME.forward` or `NAME.backward`.
        link: String [""];
        /// The class, as in `queue_class_delays`.
        class: String [""];
        /// The least time from arrival until transmission began.
        from_ms: f64 ["ms"];
        /// The end of the bin, which is at most 1.6 % above, or a nanosecond.
        to_ms: f64 ["ms"];
        /// How many packets waited for `from_ms` or longer, and for less than `to_ms`.
        packets: u64 ["packets"];
        /// The share of the class's packets that waited for `from_ms` or longer.
        at_least_percent: f64 ["%"];
    }
}

rows! {
    /// The packets of a traffic group of `monitor.delays`, or of one of its flows, in one direction,
    /// that hosts sent within the window that `[measure]` declares. What routers send does not
    /// count, and a datagram in fragments counts as that many packets.
    pub(crate) struct DelaysRow as "delays" {
        /// The traffic group, or the group of resolver workers.
        group: String [""];
        /// A flow of the group, with `flows = true`: a TCP or QUIC connection, or the datagrams
        /// between an application and another. Its name in `flows`, or its number in the group, from
        /// 0, in the order in which flows began. Empty: all flows of the group.
        flow: String [""];
        /// `there`, from the client or the sender of data, or `back`.
        direction: String [""];
        /// Packets sent.
        sent_packets: u64 ["packets"];
        /// Those of them that reached the host at the end of their path.
        arrived_packets: u64 ["packets"];
        /// Those of them that were lost. What is in neither was under way at the end of the run.
        lost_packets: u64 ["packets"];
        /// Mean time from when the host sent a packet until its last bit arrived; null: none
        /// arrived. The wait at the host's own link counts.
        delay_mean_ms: f64 ["ms", null];
        /// Median of these times; null: none arrived. Quantiles are exact to 1 %.
        delay_p50_ms: f64 ["ms", null];
        /// Their 95th percentile; null: none arrived.
        delay_p95_ms: f64 ["ms", null];
        /// Their 99th percentile; null: none arrived.
        delay_p99_ms: f64 ["ms", null];
        /// The time that 99.9 % of them do not exceed; null: none arrived.
        delay_p999_ms: f64 ["ms", null];
        /// The time that 99.99 % of them do not exceed; null: none arrived.
        delay_p9999_ms: f64 ["ms", null];
        /// The longest; null: none arrived.
        delay_max_ms: f64 ["ms", null];
    }
}

rows! {
    /// The packets of a row of `delays` that took about as long: a bin of a histogram. Every packet
    /// that arrived is in one of them. Bins without packets have no row.
    pub(crate) struct DelayBinsRow as "delay_bins" {
        /// The traffic group, as in `delays`.
        group: String [""];
        /// The flow, as in `delays`.
        flow: String [""];
        /// The direction, as in `delays`.
        direction: String [""];
        /// The least time from when the host sent a packet until its last bit arrived.
        from_ms: f64 ["ms"];
        /// The end of the bin, which is at most 1.6 % above, or a nanosecond.
        to_ms: f64 ["ms"];
        /// How many packets took `from_ms` or longer, and less than `to_ms`.
        packets: u64 ["packets"];
        /// The share of the row's packets that arrived and took `from_ms` or longer.
        at_least_percent: f64 ["%"];
    }
}

rows! {
    /// A packet that counts in `delays`, in the order in which they were sent.
    pub(crate) struct PacketDelaysRow as "packet_delays" {
        /// When its host sent it.
        sent_s: f64 ["s"];
        /// The traffic group, as in `delays`.
        group: String [""];
        /// The flow, as in `delays`; empty without `flows = true`.
        flow: String [""];
        /// The direction, as in `delays`.
        direction: String [""];
        /// Length of the IP packet.
        bytes: u32 ["bytes"];
        /// What became of it: `arrived`, `lost`, or `under-way` at the end of the run.
        fate: String [""];
        /// Its ECN field when it was sent: `not-ect`, `ect0`, `ect1` or `ce`.
        ecn: String [""];
        /// Whether it arrived with a mark (CE) that it was sent without.
        marked: bool [""];
        /// The time until its last bit arrived; null: it did not arrive.
        delay_ms: f64 ["ms", null];
    }
}

rows! {
    /// A sample of a monitored queue; counters run from the start of the run.
    pub(crate) struct QueuesRow as "queues" {
        /// When the sample was taken, from the start of the run.
        t_s: f64 ["s"];
        /// The directed link: `NAME.forward` or `NAME.backward`.
        link: String [""];
        /// Packets in the queue, without the ring.
        backlog_packets: u32 ["packets"];
        /// Bytes in the queue, without the ring.
        backlog_bytes: u64 ["bytes"];
        /// Packets in the card's ring buffer; null: not measured, as on a kernel if the link has no
        /// `ring`.
        ring_packets: u32 ["packets", null];
        /// Bytes in the card's ring buffer; null: not measured, as on a kernel if the link has no
        /// `ring`.
        ring_bytes: u64 ["bytes", null];
        /// RED's average of the backlog; null: no RED, or one that counts bytes.
        average_packets: f64 ["packets", null];
        /// RED's average of the backlog; null: no RED, or one that counts packets.
        average_bytes: f64 ["bytes", null];
        /// Mean time in queue and ring of the packets that left since the last sample; null: none
        /// left.
        sojourn_mean_ms: f64 ["ms", null];
        /// Longest such time; null: none left.
        sojourn_max_ms: f64 ["ms", null];
        /// Packets that arrived since the start, dropped ones included.
        arrived_packets: u64 ["packets"];
        /// Bytes that arrived since the start, dropped ones included.
        arrived_bytes: u64 ["bytes"];
        /// Packets that left since the start.
        sent_packets: u64 ["packets"];
        /// Drops since the start because the queue was full.
        dropped_overflow: u64 ["packets"];
        /// Drops since the start by an AQM's decision, although the queue was not full.
        dropped_early: u64 ["packets"];
        /// Drops since the start because RED's average was above `max`.
        dropped_forced: u64 ["packets"];
        /// CE marks since the start by an AQM's decision, without the forced ones.
        marked_early: u64 ["packets"];
        /// CE marks since the start because RED's average was above `max`.
        marked_forced: u64 ["packets"];
        /// Drops of DNS packets since the start; null: a kernel does not report it.
        dropped_dns: u64 ["packets", null];
    }
}

rows! {
    /// A sample of a monitored link; counters run from the start of the run.
    pub(crate) struct LinksRow as "links" {
        /// When the sample was taken, from the start of the run.
        t_s: f64 ["s"];
        /// The directed link: `NAME.forward` or `NAME.backward`.
        link: String [""];
        /// Packets transmitted since the start, completely or until the link went down.
        packets: u64 ["packets"];
        /// Their bytes, framing included.
        bytes: u64 ["bytes"];
        /// Time spent transmitting since the start; null: the line's rate is not known.
        busy_s: f64 ["s", null];
        /// Packets lost on the wire since the start.
        lost: u64 ["packets"];
    }
}

rows! {
    /// A change in what a router knows of its neighbour's link-layer address.
    pub(crate) struct NeighboursRow as "neighbours" {
        /// When it changed.
        t_s: f64 ["s"];
        /// The router.
        node: String [""];
        /// The router at the link's other end.
        neighbour: String [""];
        /// Linux's name for the new state: `incomplete`, `reachable`, `stale`, `delay`, `probe` or
        /// `failed`.
        state: String [""];
    }
}

/// Returns the declarations of all tables that runs may have.
pub fn heads() -> impl Iterator<Item = Head> {
    let of_runs = [
        FlowsRow::HEAD,
        QueuesRow::HEAD,
        QueueDelaysRow::HEAD,
        QueueDelayBinsRow::HEAD,
        ClassDelaysRow::HEAD,
        ClassDelayBinsRow::HEAD,
        DelaysRow::HEAD,
        DelayBinsRow::HEAD,
        PacketDelaysRow::HEAD,
        LinksRow::HEAD,
        NeighboursRow::HEAD,
    ];
    let of_kinds = Kind::all_heads().copied();
    of_runs.into_iter().chain(Records::HEADS).chain(of_kinds)
}

/// Returns the table of connections that exist from the start of the run.
pub(crate) fn flows(
    flows: &Flows,
    paths: &Paths,
    plan: &Plan,
    names: &[String],
    now: Time,
) -> Table {
    let node = |row: &Row<'_>, end: usize| plan.nodes[paths.nodes(row.there)[end] as usize].clone();
    let ms = |span: Option<Span>| span.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3);
    let rows = flows.listed().enumerate().map(|(number, row)| FlowsRow {
        flow: number as u32,
        name: row.name.to_owned(),
        group: names[row.application as usize].clone(),
        sender: node(&row, 0),
        receiver: node(&row, 1),
        ecn: row.connection.first().ecn_negotiated(),
        start_s: seconds(row.connection.established_at().map(|_| row.start)),
        established_s: seconds(row.connection.established_at()),
        end_s: seconds(row.connection.ended_at()),
        bytes_acked: row.connection.first().bytes_acked(),
        bytes_received: row.connection.second().bytes_received(),
        segments_sent: row.connection.first().counters().segments_sent,
        segments_retransmitted: row.connection.first().counters().segments_retransmitted,
        timeouts: row.connection.first().counters().timeouts,
        fast_recoveries: row.connection.first().counters().fast_recoveries,
        ecn_reductions: row.connection.first().counters().ecn_reductions,
        tail_probes: row.connection.first().counters().tail_probes,
        undos: row.connection.first().counters().undos,
        marks_received: row.connection.second().counters().marks_received,
        srtt_ms: ms(row.connection.first().srtt()),
        min_rtt_ms: ms(row.connection.first().min_rtt()),
        cwnd_segments: f64::from(row.connection.first().cwnd()),
        cwnd_mean_segments: row.connection.mean_window(now),
        busy_s: row.connection.first().busy(now).as_secs_f64(),
        rwnd_limited_s: row.connection.first().rwnd_limited(now).as_secs_f64(),
    });
    FlowsRow::table(rows)
}

/// Returns the samples of queues.
pub(crate) fn queues(monitors: &Monitors, plan: &Plan) -> Table {
    let rows = monitors.queue_rows.iter().map(|row| QueuesRow {
        t_s: row.at.as_secs_f64(),
        link: plan.links[row.link as usize].name.clone(),
        backlog_packets: row.backlog_packets,
        backlog_bytes: row.backlog_bytes,
        ring_packets: row.ring_packets,
        ring_bytes: row.ring_bytes,
        average_packets: match row.average {
            Some(AverageQueue::Packets(packets)) => packets,
            _ => f64::NAN,
        },
        average_bytes: match row.average {
            Some(AverageQueue::Bytes(bytes)) => bytes,
            _ => f64::NAN,
        },
        sojourn_mean_ms: row.sojourn_mean_ms,
        sojourn_max_ms: row.sojourn_max_ms,
        arrived_packets: row.arrived_packets,
        arrived_bytes: row.arrived_bytes,
        sent_packets: row.sent_packets,
        dropped_overflow: row.dropped[0],
        dropped_early: row.dropped[1],
        dropped_forced: row.dropped[2],
        marked_early: row.marked_early,
        marked_forced: row.marked_forced,
        dropped_dns: row.dropped_foreground,
    });
    QueuesRow::table(rows)
}

/// Returns the waiting times in the queues of the links that were asked for, and their histograms.
pub(crate) fn queue_delays(network: &Network, plan: &Plan) -> Vec<Table> {
    let links = || {
        plan.delay_monitors.iter().filter_map(|monitor| {
            let observed = network.links[monitor.link].transmitter.observed()?;
            Some((&plan.links[monitor.link].name, observed.delays.as_deref()?))
        })
    };
    /// Makes the rows of a table of waiting times, and those of its bins.
    macro_rules! tables {
        ($row:ident, $bins:ident, $key:ident, $groups:ident) => {{
            let each = || {
                links().flat_map(|(link, delays)| {
                    delays.$groups().map(move |(name, waits)| (link, name, waits))
                })
            };
            let rows = each().map(|(link, name, Waits { times, marked, dropped })| $row {
                link: link.clone(),
                $key: name.into(),
                sent_packets: times.count(),
                marked_packets: *marked,
                dropped_packets: *dropped,
                wait_mean_ms: times.mean_ms(),
                wait_p50_ms: times.quantile_ms(0.5),
                wait_p95_ms: times.quantile_ms(0.95),
                wait_p99_ms: times.quantile_ms(0.99),
                wait_p999_ms: times.quantile_ms(0.999),
                wait_p9999_ms: times.quantile_ms(0.9999),
                wait_max_ms: times.longest_ms(),
            });
            let bins = each().flat_map(|(link, name, waits)| {
                shares(&waits.times).map(move |(bin, at_least_percent)| $bins {
                    link: link.clone(),
                    $key: name.into(),
                    from_ms: bin.from_ms,
                    to_ms: bin.to_ms,
                    packets: bin.packets,
                    at_least_percent,
                })
            });
            [$row::table(rows), $bins::table(bins)]
        }};
    }
    let mut all = Vec::from(tables!(QueueDelaysRow, QueueDelayBinsRow, ecn, by_ecn));
    if links().any(|(_, delays)| delays.has_classes()) {
        all.extend(tables!(ClassDelaysRow, ClassDelayBinsRow, class, by_class));
    }
    all
}

/// Returns the one-way delays up to `now`: `delays`, `delay_bins`, and `packet_delays` if that was
/// asked for.
pub(crate) fn one_way(one_way: &OneWay, flows: &Flows, now: Time) -> Vec<Table> {
    let classes = one_way.classes(now);
    let mut names: Vec<String> =
        classes.iter().map(|class| class.flow.map_or(String::new(), |n| n.to_string())).collect();
    for row in flows.listed() {
        if let Some(class) = one_way.class_of(row.flow) {
            names[class..class + 2].fill(row.name.to_owned());
        }
    }
    let key = |place: usize| {
        let class = &classes[place];
        let direction = if class.goes_back { "back" } else { "there" };
        (one_way.group(class).to_owned(), names[place].clone(), direction.to_owned())
    };
    let used = || classes.iter().enumerate().filter(|(_, class)| class.sent > 0);
    let delays = used().map(|(place, class)| {
        let (group, flow, direction) = key(place);
        DelaysRow {
            group,
            flow,
            direction,
            sent_packets: class.sent,
            arrived_packets: class.delays.count(),
            lost_packets: class.lost,
            delay_mean_ms: class.delays.mean_ms(),
            delay_p50_ms: class.delays.quantile_ms(0.5),
            delay_p95_ms: class.delays.quantile_ms(0.95),
            delay_p99_ms: class.delays.quantile_ms(0.99),
            delay_p999_ms: class.delays.quantile_ms(0.999),
            delay_p9999_ms: class.delays.quantile_ms(0.9999),
            delay_max_ms: class.delays.longest_ms(),
        }
    });
    let bins = used().flat_map(|(place, class)| {
        shares(&class.delays).map(move |(bin, at_least_percent)| {
            let (group, flow, direction) = key(place);
            DelayBinsRow {
                group,
                flow,
                direction,
                from_ms: bin.from_ms,
                to_ms: bin.to_ms,
                packets: bin.packets,
                at_least_percent,
            }
        })
    });
    let mut tables = vec![DelaysRow::table(delays), DelayBinsRow::table(bins)];
    if let Some(packets) = one_way.packets() {
        tables.push(PacketDelaysRow::table(packets.iter().map(|packet| {
            let (group, flow, direction) = key(packet.class as usize);
            let (fate, arrived) = match (packet.ends_at <= now, packet.lost) {
                (false, _) => ("under-way", false),
                (true, true) => ("lost", false),
                (true, false) => ("arrived", true),
            };
            let ms = packet.ends_at.since(packet.sent_at).as_secs_f64() * 1e3;
            PacketDelaysRow {
                sent_s: packet.sent_at.as_secs_f64(),
                group,
                flow,
                direction,
                bytes: packet.bytes.into(),
                fate: fate.into(),
                ecn: packet.ecn.name().into(),
                marked: arrived && packet.marked,
                delay_ms: if arrived { ms } else { f64::NAN },
            }
        })));
    }
    tables
}

/// Returns a histogram's bins, each with the share of times, in per cent, that lie there or above.
pub(crate) fn shares(histogram: &Histogram) -> impl Iterator<Item = (Bin, f64)> {
    let all = histogram.count();
    let mut left = all;
    histogram.bins().map(move |bin| {
        let at_least_percent = 100.0 * left as f64 / all as f64;
        left -= bin.packets;
        (bin, at_least_percent)
    })
}

/// Returns the samples of links.
pub(crate) fn links(monitors: &Monitors, plan: &Plan) -> Table {
    let rows = monitors.link_rows.iter().map(|row| LinksRow {
        t_s: row.at.as_secs_f64(),
        link: plan.links[row.link as usize].name.clone(),
        packets: row.packets,
        bytes: row.bytes,
        busy_s: row.busy_s,
        lost: row.lost,
    });
    LinksRow::table(rows)
}

/// Returns how routers' neighbour entries changed, one row for each change.
pub(crate) fn neighbours(neighbours: &Neighbours, plan: &Plan) -> Table {
    let rows = neighbours.changes.iter().map(|row| NeighboursRow {
        t_s: row.at.as_secs_f64(),
        node: plan.nodes[plan.links[row.link as usize].from].clone(),
        neighbour: plan.nodes[plan.links[row.link as usize].to].clone(),
        state: row.state.name().to_owned(),
    });
    NeighboursRow::table(rows)
}

/// Converts to seconds; NaN means "never".
fn seconds(at: Option<Time>) -> f64 {
    at.map_or(f64::NAN, Time::as_secs_f64)
}

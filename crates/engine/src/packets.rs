//! The packets of one DNS query, from the captures of a run, as a table with a row for each passage.

use std::collections::BTreeSet;

use narrows_sim::Simulation;
use narrows_sim::captured::{Captured, Frame};
use narrows_sim::plan::Capture;
use narrows_sim::record::Content;
use narrows_sim::table::{Column, Table};
use narrows_sim::tcp::{Flags, Segment};

/// Returns what the captured links saw of a query: its datagrams, and all segments of connections
/// that carried it. Encrypted datagrams (QUIC) name no query and are not among them.
///
/// `t_s` is when the packet left the link (in seconds), or with `inbound` when it arrived at the
/// link's end. Rows with one `id` are one packet. `attempt` is 0 for segments that carry nothing of
/// the query.
pub fn packets(run: &Simulation, query: u32) -> Table {
    let links = run.plan().links.len();
    let mut seen = Vec::new();
    for capture in &run.plan().captures {
        seen.extend(run.captured(capture.link));
        // What arrives alone: no link has the number `links`.
        let arrivals = Capture { back: Some(capture.link), ..Capture::of(links, "") };
        seen.extend(run.captured_by(&arrivals));
    }
    let carriers: BTreeSet<_> = seen
        .iter()
        .filter(|packet| packet.said.iter().any(|said| said.content.query == query))
        .map(connection)
        .collect();
    seen.retain(|packet| match packet.frame {
        Frame::Udp { content, .. } => content.is_some_and(|content| content.query == query),
        Frame::Tcp(_) => carriers.contains(&connection(packet)),
        _ => false,
    });
    let said = |packet: &Captured| content(packet, query);
    Table {
        name: "packets",
        columns: vec![
            ("t_s", Column::F64(seen.iter().map(|p| p.at.as_secs_f64()).collect())),
            ("inbound", Column::Bool(seen.iter().map(|p| p.inbound).collect())),
            ("link", Column::U32(seen.iter().map(|p| p.link).collect())),
            ("from", Column::U32(seen.iter().map(|p| p.from).collect())),
            ("id", Column::Text(seen.iter().map(id).collect())),
            (
                "attempt",
                Column::U8(seen.iter().map(|p| said(p).map_or(0, |c| c.attempt)).collect()),
            ),
            ("name", Column::Text(seen.iter().map(|p| name(p, said(p))).collect())),
        ],
    }
}

/// Returns what a packet says of the query.
fn content(packet: &Captured, query: u32) -> Option<Content> {
    match packet.frame {
        Frame::Udp { content, .. } => content,
        _ => packet.said.iter().map(|said| said.content).find(|content| content.query == query),
    }
}

/// Returns the two ends of a packet's connection, whichever of them sent it.
fn connection(packet: &Captured) -> [(u32, u16); 2] {
    let mut ends = [(packet.from, packet.ports.0), (packet.to, packet.ports.1)];
    ends.sort_unstable();
    ends
}

/// Returns a text that tells packets apart. ECN may change on the way, so it is no part of it.
fn id(packet: &Captured) -> String {
    let ends = (packet.from, packet.ports);
    match packet.frame {
        Frame::Tcp(Segment { seq, ack, len, flags, timestamps, sack, .. }) => {
            format!("{ends:?} {seq:?} {ack:?} {len} {flags:?} {timestamps:?} {:?}", sack.as_slice())
        }
        Frame::Udp { content, part, .. } => {
            let attempt = content.map(|content| content.attempt);
            format!("{ends:?} {attempt:?} {:?}", part.map(|part| part.offset))
        }
        _ => String::new(),
    }
}

/// Returns what people call a packet.
fn name(packet: &Captured, said: Option<Content>) -> String {
    let message = said.map(|content| match content {
        Content { truncated: true, .. } => "truncated reply",
        Content { reply: true, .. } => "reply",
        _ => "query",
    });
    match packet.frame {
        Frame::Tcp(Segment { flags, len, .. }) => {
            let of = [(Flags::SYN, "SYN"), (Flags::FIN, "FIN"), (Flags::RST, "RST")];
            let mut words: Vec<&str> = of
                .iter()
                .filter(|(flag, _)| flags.contains(*flag))
                .map(|(_, name)| *name)
                .collect();
            match message {
                Some(message) => words.push(message),
                None if len > 0 => words.push("data"),
                None if flags.contains(Flags::ACK) => words.push("ACK"),
                None => {}
            }
            words.join(", ")
        }
        Frame::Udp { part: Some(part), .. } => {
            format!("{}, fragment at {}", message.unwrap_or("datagram"), part.offset)
        }
        _ => message.unwrap_or("datagram").to_owned(),
    }
}

//! Clients, and what they may send.

use super::*;

impl Pair {
    /// A segment of a client, mostly one that fits.
    // Long: a list of cases.
    pub(super) fn segment(&mut self, at: usize) -> Segment {
        let kind = self.below(100);
        let (part, heard) = (self.below(6), self.chance(50));
        let (odd, tsval) = (self.random.next_u32(), self.random.next_u32());
        let client = &mut self.clients[at];
        let saying = &mut client.saying;
        saying.tsval = saying.tsval.map(|before| before.wrapping_add(tsval & 3));
        let (length, end) = (saying.length(), client.reply);
        let acked = [0, end, end + 1, end / 2, end, end][part as usize];
        let mut segment = match kind {
            0..=7 => {
                // A new connection on the same port, or the same SYN again.
                if heard {
                    saying.isn = odd;
                    client.reply = 0;
                    client.before = None;
                }
                saying.syn()
            }
            8..=12 => saying.ack(0, 0),
            13..=18 if client.before.is_some() => {
                let before = client.before.clone().expect("there is one");
                let more = [&before.payload[..], &saying.query].concat();
                let payload = if odd & 3 == 0 { more } else { before.payload };
                // Mostly with the acknowledgement of the reply's end, as a client would send it.
                let ack = saying.ack(0, if odd & 12 == 0 { odd >> 8 } else { acked }).ack;
                Segment { payload, ack, ..before }
            }
            13..=35 => saying.data(),
            36..=40 => Segment { flags: ACK | PSH | FIN, ..saying.data() },
            41..=45 => saying.data_at(0, acked, &saying.query.clone()),
            46..=57 => saying.ack(length, acked),
            58..=62 => saying.ack(length + 10, acked),
            63..=65 => saying.ack(length + 1, acked),
            66..=67 => {
                // A keep-alive probe: before the query, or behind it.
                let (place, ack) = if odd & 1 == 0 { (length - 1, acked) } else { (u32::MAX, 0) };
                let payload = vec![b'?'; (odd >> 1 & 1) as usize];
                Segment { payload, ..saying.ack(place, ack) }
            }
            68..=72 => saying.fin(length, acked),
            73..=74 => saying.fin(length + 1, acked),
            75 => saying.fin(0, 0),
            76 => saying.data_at(length, end, &any_query(odd)),
            77..=80 if odd & 7 > 0 => saying.data_at(length, acked, &any_query(odd)),
            82..=83 => saying.data_at(length + 10, acked, b"and more"),
            77..=83 => saying.data_at(length, acked, b"\0\x20and more"),
            84 if odd & 1 == 0 => saying.data_at(0, 0, &saying.query.clone()[..7]),
            84 => {
                let more = if odd & 2 == 0 { b"\0\x20and more".to_vec() } else { any_query(odd) };
                let payload = [&saying.query[..], &more].concat();
                let fin = if odd & 4 == 0 { FIN } else { 0 };
                let segment = saying.data_at(0, if odd & 24 == 0 { 0 } else { acked }, &payload);
                Segment { flags: segment.flags | fin, ..segment }
            }
            85..=86 => {
                Segment { flags: RST | (ACK * (part as u8 & 1)), ..saying.ack(length - part, 0) }
            }
            87 => Segment { flags: odd as u8 & 31, ..saying.data() },
            88..=90 => Segment { seq: odd, ..saying.data_at(0, acked, b"data of nothing known") },
            91..=92 => saying.ack(odd & 0xff, odd >> 8 & 0xffff),
            _ => {
                // The next query is a different one.
                if saying.tsecr & 4096 == 0 {
                    saying.query = any_query(odd);
                    if saying.query[13] > 0 && tsval & 0x1f0 == 0 {
                        with_keepalive(&mut saying.query);
                    }
                }
                saying.data()
            }
        };
        if let (true, Some((_, tsecr))) = (heard && client.reply > 0, &mut segment.timestamps) {
            *tsecr |= 4096;
        }
        // Some leave out timestamps that they offered.
        if segment.flags & SYN == 0 && odd & 0x3f00 == 0 {
            segment.timestamps = None;
        }
        segment
    }
}

pub(super) fn client(random: &mut Pcg32, i: u16) -> Client {
    let mut saying = Conversation::new(settings());
    if i % 2 == 1 {
        saying = saying.over_ipv6();
    }
    if i % 4 >= 2 {
        saying = saying.plain();
    }
    saying.client.set_port(40_000 + i);
    saying.isn = random.next_u32();
    saying.mss = [Some(1460), Some(1220), None, Some(8960), Some(40)][usize::from(i % 5)];
    saying.query = query(i, "www.example.com", 1, (i < 4).then_some(1232));
    Client { saying, reply: 0, stored: None, before: None }
}

/// A random query.
pub(super) fn any_query(odd: u32) -> Vec<u8> {
    let names = ["www.example.com", "WWW.example.COM", "a.b.c.example.org", "."];
    let kinds = [1, 28, 16, 252];
    let edns = [None, Some(512), Some(1232), Some(65_535)];
    let pick = |shift: u32| (odd >> shift & 3) as usize;
    query(odd as u16, names[pick(16)], kinds[pick(18) & pick(20)], edns[pick(22)])
}

/// Adds the edns-tcp-keepalive option (RFC 7828) to a query's OPT record.
pub(super) fn with_keepalive(query: &mut Vec<u8>) {
    let end = query.len();
    query[end - 1] = 4;
    query.extend([0, 11, 0, 0]);
    let length = (query.len() - 2) as u16;
    query[..2].copy_from_slice(&length.to_be_bytes());
}

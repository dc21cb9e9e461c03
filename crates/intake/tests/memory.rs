//! Files that are made to fill the memory: whatever they hold, the readers stay far below a
//! gigabyte.
//!
//! The files are made while they are read, so that the process holds only what a reader holds. All
//! are in one test, because the kernel's high-water mark is that of the whole process.

#![cfg(target_os = "linux")]

use std::io::{self, Read};

use narrows_intake::atlas::AtlasReader;
use narrows_intake::capture::Watched;

/// A file of pieces that are made one by one.
struct Made<F> {
    piece: F,
    count: u32,
    made: u32,
    rest: Vec<u8>,
    at: usize,
}

impl<F: FnMut(u32) -> Vec<u8>> Made<F> {
    fn new(head: Vec<u8>, count: u32, piece: F) -> Self {
        Self { piece, count, made: 0, rest: head, at: 0 }
    }
}

impl<F: FnMut(u32) -> Vec<u8>> Read for Made<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.rest.len() {
            if self.made == self.count {
                return Ok(0);
            }
            self.rest = (self.piece)(self.made);
            self.at = 0;
            self.made += 1;
        }
        let count = into.len().min(self.rest.len() - self.at);
        into[..count].copy_from_slice(&self.rest[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// A pcap of raw IPv4 in which no time passes.
fn pcap(count: u32, mut packet: impl FnMut(u32) -> Vec<u8>) -> impl Read {
    let words = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101];
    Made::new(words.iter().flat_map(|word| word.to_le_bytes()).collect(), count, move |number| {
        let data = packet(number);
        let length = data.len() as u32;
        let head = [1_800_000_000, 0, length, length];
        head.iter().flat_map(|word| word.to_le_bytes()).chain(data).collect()
    })
}

/// An IPv4 packet from client number `client`. `fragment` is the header's word of flags and offset.
fn ip(protocol: u8, client: u32, fragment: u16, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + body.len() as u16).to_be_bytes());
    packet.extend((client as u16).to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10]);
    packet.extend(&client.to_be_bytes()[1..]);
    packet.extend([192, 0, 2, 53]);
    packet.extend(body);
    packet
}

/// A query for a name of 255 octets, none of which can be printed: a thousand characters.
fn query(number: u32) -> Vec<u8> {
    let mut message = vec![(number >> 8) as u8, number as u8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let mut left = 254;
    while left > 1 {
        let length = 63.min(left - 1);
        message.push(length as u8);
        message.extend((0..length).map(|at| 128 | (number >> (at % 4 * 7)) as u8));
        left -= 1 + length;
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

fn udp(message: &[u8]) -> Vec<u8> {
    let mut datagram = [40_000_u16.to_be_bytes(), 53_u16.to_be_bytes()].concat();
    datagram.extend((8 + message.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(message);
    datagram
}

fn tcp(port: u16, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = [port.to_be_bytes(), 53_u16.to_be_bytes()].concat();
    segment.extend(seq.to_be_bytes());
    segment.extend([0, 0, 0, 1, 0x50, flags, 255, 255, 0, 0, 0, 0]);
    segment.extend(payload);
    segment
}

/// A field of Protocol Buffers that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = [(bytes.len() & 0x7f) as u8 | 0x80, (bytes.len() >> 7) as u8];
    [&[number << 3 | 2][..], &length, bytes].concat()
}

/// dnstap queries that nobody answers.
fn dnstap(count: u32) -> impl Read {
    let control = [0_u32, 4, 2].iter().flat_map(|word| word.to_be_bytes()).collect();
    Made::new(control, count, |number| {
        // CLIENT_QUERY over UDP, with its address and time.
        let address = field(4, &number.to_be_bytes());
        let message =
            [&[8, 5, 24, 1][..], &address, &[64, 100], &field(10, &query(number))].concat();
        let frame = field(14, &message);
        [&(frame.len() as u32).to_be_bytes()[..], &frame].concat()
    })
}

fn look(mut reader: Watched<impl Read>) -> (u64, usize) {
    let mut tables = 0;
    while reader.next_tables(200_000).is_some() {
        tables += 1;
    }
    (reader.records(), tables)
}

/// Returns the most memory that this process has had so far, in MB.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux reports it");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u64>().expect("digits") / 1024
}

#[test]
fn no_file_takes_a_gigabyte() {
    let files: [(&str, Box<dyn Read>, u32); 6] = [
        (
            "queries with long names",
            Box::new(pcap(150_000, |n| ip(17, n, 0, &udp(&query(n))))),
            150_000,
        ),
        (
            "segments behind a gap",
            Box::new(pcap(250_000, |n| {
                ip(6, n / 64, 0, &tcp(9, 2_000 * (n % 64 + 1), 16, &[0; 1400]))
            })),
            250_000,
        ),
        (
            "connections that end at once",
            Box::new(pcap(250_000, |n| ip(6, 1, 0, &tcp(9, n / 2, [2, 4][n as usize % 2], b"")))),
            250_000,
        ),
        (
            "queries on persistent connections",
            Box::new(pcap(260_000, |n| {
                let message = query(n);
                let whole = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
                ip(6, n % 97, 0, &tcp(9, n / 97 * whole.len() as u32, 16, &whole))
            })),
            260_000,
        ),
        ("fragments", Box::new(pcap(50_000, |n| ip(17, n, 0x2000, &[0; 1400]))), 50_000),
        ("dnstap", Box::new(dnstap(250_000)), 250_000),
    ];
    for (name, file, count) in files {
        let Ok(reader) = Watched::open(file, &[53]) else { panic!("{name}: it is a capture") };
        let (records, tables) = look(reader);
        println!("{name}: {records} records, {tables} tables, {} MB so far", peak_mb());
        assert_eq!(records, u64::from(count), "{name}");
        assert!(peak_mb() < MOST_MB, "{name}: {} MB", peak_mb());
    }
    let long = "x".repeat(4_000);
    let results = Made::new(Vec::new(), 50_000, move |number| {
        let (start, end) =
            (r#"{"type":"dns","prb_id":1,"proto":"TCP","timestamp":9,"dst_name":""#, '}');
        format!(r#"{start}{number}{long}","error":{{"{number}{long}":1}}{end}"#).into_bytes()
    });
    let mut reader = AtlasReader::new(results);
    let mut rows = 0;
    while let Some(chunk) = reader.next_chunk(200_000) {
        rows += chunk.len();
        drop(chunk.into_columns());
    }
    println!("Atlas: {rows} rows, {} MB so far", peak_mb());
    assert_eq!((rows, reader.records()), (50_000, 50_000));
    assert!(peak_mb() < MOST_MB, "Atlas: {} MB", peak_mb());
}

/// Leaves room for Python and its tables.
const MOST_MB: u64 = 700;

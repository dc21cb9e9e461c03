//! Damaged and hostile files: every reader soon gives rows or counts, and never panics.
//!
//! Whole files are changed byte by byte, as a fuzzer would: 20,000 times each with a fixed seed, or
//! for as many seconds as `NARROWS_FUZZ_SECONDS` says, with another seed each time. fuzz/ looks
//! further.

use std::io::{Cursor, Read};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use narrows_intake::atlas::AtlasReader;
use narrows_intake::capture::Watched;
use narrows_intake::decompressed;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const RESULTS: &str = concat!(
    r#"[{"type":"dns","fw":4670,"prb_id":10003,"msm_id":11501,"proto":"UDP","af":6,"lts":93,"#,
    r#""dst_addr":"2001:7fd::1","timestamp":1422663192,"result":{"rt":17.8,"size":55,"ANCOUNT":1,"#,
    r#""abuf":"kmqAAAABAAEAAAAAB3ZlcnNpb24Gc2VydmVyAAAQAAPADAAQAAMAAAAAAAsKTlNEIDMuMi4xNA=="}},"#,
    "\n",
    r#"{"type":"dns","fw":"4790","prb_id":7,"msm_id":8,"timestamp":99,"resultset":[{"subid":1,"#,
    r#""time":100,"proto":"TCP","dst_name":"192.168.1.1","error":{"TU_BAD_ADDR":true}},"#,
    r#"{"subid":2,"proto":"TCP","dst_addr":"192.0.2.1","qbuf":"AAA=","result":{"rt":1,"qt":2}}]}]"#,
);

fn read_atlas(data: &[u8]) -> (usize, u64) {
    let Ok(file) = decompressed(Cursor::new(data.to_vec())) else { return (0, 1) };
    let mut reader = AtlasReader::new(file);
    let mut rows = 0;
    while let Some(chunk) = reader.next_chunk(16) {
        rows += chunk.len();
        chunk.into_columns();
    }
    (rows, reader.skipped().total())
}

fn read_capture(data: impl Read) -> (usize, u64) {
    let Ok(mut reader) = Watched::open(data, &[53]) else { return (0, 1) };
    let mut rows = 0;
    while let Some(chunk) = reader.next_chunk(16) {
        rows += chunk.len();
        chunk.into_columns();
    }
    (rows, reader.notes()[0].skipped.total())
}

/// Far more than the milliseconds that any of the files takes, even on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Gives `look` damaged forms of the files, in turn.
fn damage(files: &[Vec<u8>], seed: u64, mut look: impl FnMut(usize, &[u8])) {
    let seconds = std::env::var("NARROWS_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let seed = if end.is_some() { now as u64 } else { seed };
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut longest = Duration::ZERO;
    let mut round = 0;
    while end.map_or(round < 20_000, |end| Instant::now() < end) {
        let number = round % files.len();
        let data = damaged(&files[number], &mut rng);
        let clock = Instant::now();
        look(number, &data);
        longest = longest.max(clock.elapsed());
        round += 1;
    }
    println!("seed {seed}: {round} files, the longest took {longest:?}");
    assert!(longest < SOON, "seed {seed}: a file took {longest:?}");
}

/// Changes a few bytes, or cuts, repeats or inserts some.
fn damaged(whole: &[u8], rng: &mut Pcg64Mcg) -> Vec<u8> {
    let mut data = whole.to_vec();
    for _ in 0..=rng.next_u32() % 4 {
        if data.is_empty() {
            break;
        }
        let at = rng.next_u32() as usize % data.len();
        match rng.next_u32() % 6 {
            0 => data[at] = rng.next_u32() as u8,
            1 => data[at] = [0, 1, 0x7f, 0x80, 0xff, b'{'][rng.next_u32() as usize % 6],
            2 => data.truncate(at),
            3 => data.insert(at, rng.next_u32() as u8),
            4 => {
                let end = (at + rng.next_u32() as usize % 64).min(data.len());
                let part = data[at..end].to_vec();
                data.splice(at..at, part);
            }
            _ => {
                let end = (at + 4).min(data.len());
                data[at..end].fill(0xff);
            }
        }
    }
    data
}

#[test]
fn damaged_results_give_rows_or_counts() {
    assert_eq!(read_atlas(RESULTS.as_bytes()), (3, 0));
    damage(&[RESULTS.as_bytes().to_vec()], 1, |_, data| {
        let (rows, skipped) = read_atlas(data);
        assert!(rows <= 12 && skipped <= 12);
        let objects = data.contains(&b'{');
        assert_eq!(rows as u64 + skipped > 0, objects, "{}", String::from_utf8_lossy(data));
    });
}

/// A pcap of a DNS query over TCP whose reply comes in two segments, and one over UDP.
fn capture() -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01";
    let reply = b"\x12\x34\x84\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01";
    let joined = [b"\0\x11".as_slice(), query].concat();
    let steps: [(bool, u8, u32, u32, &[u8]); 7] = [
        (true, 2, 100, 0, b""),
        (false, 18, 500, 101, b""),
        (true, 16, 101, 501, b""),
        (true, 24, 101, 501, &joined),
        (false, 24, 501, 120, b"\0\x11"),
        (false, 24, 503, 120, reply),
        (true, 17, 120, 520, b""),
    ];
    for (number, (from_client, flags, seq, ack, payload)) in steps.into_iter().enumerate() {
        let (from, to) = if from_client { (40_000_u16, 53_u16) } else { (53, 40_000) };
        let mut tcp = [from.to_be_bytes(), to.to_be_bytes()].concat();
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        tcp.extend([0x50, flags, 255, 255, 0, 0, 0, 0]);
        tcp.extend(payload);
        record(&mut file, number as u32, from_client, 6, &tcp);
    }
    for (number, message, from_client) in [(10, query, true), (11, reply, false)] {
        let (from, to) = if from_client { (40_000_u16, 53_u16) } else { (53, 40_000) };
        let mut udp = [from.to_be_bytes(), to.to_be_bytes(), 25_u16.to_be_bytes(), [0; 2]].concat();
        udp.extend(message);
        record(&mut file, number, from_client, 17, &udp);
    }
    file
}

fn record(file: &mut Vec<u8>, milliseconds: u32, from_client: bool, protocol: u8, body: &[u8]) {
    let length = 20 + body.len() as u32;
    for word in [1_800_000_000, milliseconds * 1_000, length, length] {
        file.extend(u32::to_le_bytes(word));
    }
    file.extend([0x45, 0]);
    file.extend((length as u16).to_be_bytes());
    file.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    let (client, server) = ([192, 0, 2, 1], [192, 0, 2, 53]);
    let ends = if from_client { [client, server] } else { [server, client] };
    file.extend(ends.concat());
    file.extend(body);
}

#[test]
fn a_reply_in_two_segments_is_seen_as_such() {
    let file = capture();
    let Ok(mut reader) = Watched::open(file.as_slice(), &[53]) else { panic!("it is a pcap") };
    let chunk = reader.next_chunk(100).expect("it has rows");
    let [udp, tcp] = [1, 0].map(|index| &chunk.exchanges()[index]);
    let (udp, tcp) = if udp.transport == "udp" { (udp, tcp) } else { (tcp, udp) };
    assert_eq!((udp.outcome, udp.query_ns), ("answered", Some(1_000_000)));
    assert_eq!((tcp.outcome, tcp.prefix, tcp.segments), ("answered", "alone", Some(2)));
    assert_eq!(*tcp.sizes, [2, 17]);
    // SYN at 0, ACK at 2, query at 3, the last byte at 5 ms.
    assert_eq!((tcp.connect_ns, tcp.query_ns), (Some(2_000_000), Some(2_000_000)));
    assert_eq!((tcp.first_byte_ns, tcp.total_ns), (Some(1_000_000), Some(5_000_000)));
    assert_eq!((tcp.qname.as_str(), tcp.qtype), (".", Some(6)));
    let [connection] = chunk.connections() else { panic!("one connection") };
    assert_eq!((connection.syn_ns, connection.ack_ns), (Some(1_000_000), Some(1_000_000)));
    assert_eq!((connection.closed_by, connection.ending), ("client", "fin"));
    assert_eq!((connection.bytes, connection.segments), ([19, 19], [1, 2]));
}

#[test]
fn damaged_captures_give_rows_or_counts() {
    let whole = capture();
    assert_eq!(read_capture(&*whole), (3, 0));
    damage(std::slice::from_ref(&whole), 2, |_, data| {
        let (rows, skipped) = read_capture(data);
        assert!(rows + skipped as usize <= 40);
        assert!(rows + skipped as usize > 0 || data.len() == 24, "{data:?}");
    });
    let ends = ends(&whole);
    assert_eq!(ends.len(), 1 + 9);
    for length in 0..whole.len() {
        let (rows, skipped) = read_capture(&whole[..length]);
        // Whatever ends within a packet, or within the header of the file, is counted.
        assert_eq!(skipped, u64::from(!ends.contains(&length)), "{length} bytes");
        // The connection gives a row once its SYN is there, and each exchange over UDP once its
        // query is.
        let expected = usize::from(length >= ends[1]) + usize::from(length >= ends[8]);
        assert!((expected..=3).contains(&rows), "{rows} rows of {length} bytes");
    }
}

/// Where the header and the packets of a pcap end.
fn ends(pcap: &[u8]) -> Vec<usize> {
    let mut ends = vec![24];
    while let Some(length) = pcap[ends[ends.len() - 1]..].get(8..12) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        ends.push(ends[ends.len() - 1] + 16 + length as usize);
    }
    ends
}

/// A file that notes how much room a reader makes for it at once.
struct Roomy<'a> {
    file: &'a [u8],
    most: &'a mut usize,
}

impl Read for Roomy<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        *self.most = buffer.len().max(*self.most);
        self.file.read(buffer)
    }
}

#[test]
fn lengths_that_claim_much_get_no_memory() {
    // A pcapng block and a pcap packet that claim to be 16 MB long, in a file of 40 bytes.
    let mut block = vec![0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 1, 0x4d, 0x3c, 0x2b, 0x1a];
    block.extend([0; 28]);
    let mut packet = capture()[..24].to_vec();
    for word in [0, 0, 16 << 20, 16 << 20] {
        packet.extend(u32::to_le_bytes(word));
    }
    for file in [block, packet] {
        let mut most = 0;
        assert_eq!(read_capture(Roomy { file: &file, most: &mut most }), (0, 1));
        assert!((1..=1 << 20).contains(&most), "room for {most} bytes");
    }
}

/// The most bytes of the captures' headers and first packets.
const HEADERS: usize = 332;

/// The captures of tests/captures/data: pcap, pcapng with several interfaces, dnstap.
fn captures() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/captures/data");
    let entries = std::fs::read_dir(folder).expect("the repository has them");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|extension| extension != "md"));
    assert!(paths.len() >= 10);
    paths.iter().map(|path| std::fs::read(path).expect("it can be read")).collect()
}

#[test]
fn damaged_captures_of_real_servers_give_rows_or_counts() {
    let files = captures();
    let whole: Vec<usize> = files.iter().map(|data| read_capture(&**data).0).collect();
    assert!(whole.iter().all(|rows| *rows > 0));
    damage(&files, 3, |number, data| {
        let (rows, skipped) = read_capture(data);
        // Damage may split a connection or a query in two, or repeat part of it.
        assert!(rows <= 8 * whole[number] + 64, "{rows} rows of file {number}");
        let whatever = rows as u64 + skipped > 0;
        assert!(
            whatever || data.len() <= HEADERS,
            "{} bytes of file {number} gave nothing",
            data.len()
        );
    });
}

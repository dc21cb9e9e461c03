//! Reads any bytes as a capture or a dnstap file, compressed or not: rows or counts, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_intake::{capture::Watched, decompressed};

fuzz_target!(|data: &[u8]| {
    let Ok(file) = decompressed(std::io::Cursor::new(data.to_vec())) else { return };
    let Ok(mut reader) = Watched::open(file, &[53]) else { return };
    while let Some(chunk) = reader.next_chunk(64) {
        for row in chunk.exchanges() {
            assert!(!row.outcome.is_empty());
            assert!(row.query_ns.is_none_or(|span| span >= 0 && row.outcome == "answered"));
            assert!(row.total_ns.is_none_or(|span| span >= 0));
        }
        chunk.into_columns();
    }
});

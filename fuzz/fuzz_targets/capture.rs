//! Any bytes as a capture or a dnstap file: rows or counts, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_intake::capture::Watched;

fuzz_target!(|data: &[u8]| {
    let Ok(mut reader) = Watched::open(data, &[53]) else { return };
    while let Some(chunk) = reader.next_chunk(64) {
        for row in chunk.exchanges() {
            assert!(!row.outcome.is_empty());
            assert_eq!(row.query_ns.is_some(), row.outcome == "answered");
        }
        chunk.into_columns();
    }
});

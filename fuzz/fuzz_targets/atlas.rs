//! Reads any bytes as a file of RIPE Atlas results, compressed or not: rows or counts, never a
//! panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_intake::{atlas::AtlasReader, decompressed};

fuzz_target!(|data: &[u8]| {
    let Ok(file) = decompressed(std::io::Cursor::new(data.to_vec())) else { return };
    let mut reader = AtlasReader::new(file);
    let mut rows = 0;
    while let Some(chunk) = reader.next_chunk(64) {
        rows += chunk.len();
        let columns = chunk.into_columns();
        assert!(columns.len() > 20);
    }
    // At most 64 elements a record. A record without rows was counted.
    assert!(rows as u64 <= 64 * reader.records());
    assert!(rows > 0 || reader.records() <= reader.skipped().total());
});

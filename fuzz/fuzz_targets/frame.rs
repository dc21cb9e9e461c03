//! Frames: reading never panics, and writing what was read and reading it again changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_wire::{Payload, checksums_hold, read};

fuzz_target!(|bytes: &[u8]| {
    let _ = checksums_hold(bytes);
    let Ok(received) = read(bytes) else { return };
    let mut again = Vec::new();
    let payload = Payload::Bytes(received.payload);
    received.packet.write(payload, usize::MAX, &mut again).expect("it was a frame");
    assert_eq!(checksums_hold(&again), Ok(true));
    let again = read(&again).expect("our own frame");
    assert_eq!((again.packet, again.payload), (received.packet, received.payload));
});

//! DNS messages: reading never panics, and writing what was read and reading it again changes
//! nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_wire::dns::{Message, WriteError};

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Message::read(bytes) else { return };
    match message.write() {
        Ok(again) => assert_eq!(Message::read(&again), Ok(message)),
        // Compression may serve a writer worse than it served the sender.
        Err(error) => assert!(matches!(error, WriteError::OtherType(_) | WriteError::TooLong)),
    }
});

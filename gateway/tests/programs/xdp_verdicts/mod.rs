//! The XDP program's verdicts, by `bpf_prog_run`: each row of PROTOCOL.md's tables, for IPv4 and
//! IPv6, with and without timestamps. Needs root; prints SKIP otherwise.

mod first_data;
mod headers;
mod syn;

use crate::common::conversation::KEYS;
use crate::common::frames::*;
use crate::common::packets::{ACK, FIN, PSH, RST, SYN, Segment, prefixed, query, with_checksums};
use crate::common::programs::{Programs, RING_UNIT, boot_ns, counted, programs};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::settings;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

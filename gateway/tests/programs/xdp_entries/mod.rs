//! The XDP program's verdicts on connections that have an entry, by `bpf_prog_run`: PROTOCOL.md,
//! "Data on an entry" and "Acknowledgements", row by row. Needs root; prints SKIP otherwise.

mod acknowledgements;
mod closing;
mod probes;
mod query;
mod replied;
mod unknown;

use crate::common::frames::*;
use crate::common::packets::{ACK, FIN, PSH, RST, Segment, query};
use crate::common::programs::{
    Programs, RING_SIZE, RING_UNIT, XDP_PASS, boot_ns, counted, programs,
};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::{flow, settings};

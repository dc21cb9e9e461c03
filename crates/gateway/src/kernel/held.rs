//! How many connections of each source the kernel's TCP has. `limits.adoptions` bounds this number.
//!
//! The programs count the connections that they give to the kernel, but no program sees a
//! connection end. So once a second this module asks the kernel for all connections at the DNS
//! port, and replaces the counts of the sources that the programs know. A connection that is taken
//! over between these two steps is missed for a second.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::KernelError;
use super::scan::scan;
use super::settings::Plain;
use super::types::{adopter, source_key};
use crate::netlink::Netlink;

/// Counts the connections.
#[derive(Debug)]
pub struct Held {
    netlink: Netlink,
}

impl Held {
    /// Opens the socket for the question, which needs no privilege.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no sock_diag(7).
    pub fn new() -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open_sockets()? })
    }

    /// Writes to `adopters` how many connections each of its sources has at this port.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses.
    pub fn count(&mut self, adopters: &MapHandle, port: u16) -> Result<(), KernelError> {
        let mut known = Vec::new();
        scan(adopters, |key: &source_key, _: &adopter| known.push(*key))?;
        if known.is_empty() {
            return Ok(());
        }
        let mut counts: HashMap<[u8; 8], u32> = HashMap::new();
        self.netlink
            .peers(port, |peer| *counts.entry(source(peer)).or_default() += 1)
            .map_err(|error| KernelError::refused("counting connections", error))?;
        for key in known {
            // A source that is gone by now needs no change.
            let _ = match key.bytes().first_chunk().and_then(|bytes| counts.get(bytes)) {
                Some(&held) => {
                    let now = adopter { held, fresh: 0 };
                    adopters.update(key.bytes(), now.bytes(), MapFlags::EXIST)
                }
                None => adopters.delete(key.bytes()),
            };
        }
        Ok(())
    }
}

/// Returns the key of a source, as `source_of` in `bpf/flow.h` computes it.
fn source(address: IpAddr) -> [u8; 8] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [0, 0, 0xff, 0xff, a, b, c, d]
        }
        IpAddr::V6(address) => ((address.to_bits() >> 64) as u64).to_be_bytes(),
    }
}

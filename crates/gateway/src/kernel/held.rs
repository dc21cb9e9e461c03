//! How many connections of each source the kernel's TCP has: what `limits.adoptions` bounds.
//!
//! The programs count what they give to the kernel, but no program sees when a connection ends. So once a second this asks
//! the kernel for all that it has at the DNS port, for the sources that the programs know, and puts that in the place of what
//! they counted. A connection that is taken over between the two is missed for a second.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::KernelError;
use super::scan::scan;
use super::settings::Plain;
use super::types::{adopter, source_key};
use crate::netlink::Netlink;

/// Counts them.
#[derive(Debug)]
pub struct Held {
    netlink: Netlink,
}

impl Held {
    /// Opens what it asks, for which nobody needs a privilege.
    ///
    /// # Errors
    ///
    /// Where the kernel has no sock_diag(7).
    pub fn new() -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open_sockets()? })
    }

    /// Writes to `adopters` how many connections each of its sources has at this port.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
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
            // It may have gone meanwhile, and then needs nothing.
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

/// The key of a source, as `source_of` of `bpf/flow.h` makes it.
fn source(address: IpAddr) -> [u8; 8] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [0, 0, 0xff, 0xff, a, b, c, d]
        }
        IpAddr::V6(address) => ((address.to_bits() >> 64) as u64).to_be_bytes(),
    }
}

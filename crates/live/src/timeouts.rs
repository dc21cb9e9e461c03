//! Retransmission timeouts of hosts.
//!
//! `TCP_INFO` has no count of them before Linux 6.7. The counter `TCPTimeouts` of a namespace
//! (/proc/net/netstat) counts those of all its connections. So the connection whose count is read
//! next gets all that were added since the last reading.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;

use crate::counters::{counter, read_all};
use crate::sockets::Places;

/// The counters of the nodes that were added.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    nodes: BTreeMap<usize, Counter>,
}

#[derive(Debug)]
struct Counter {
    netstat: File,
    seen: Cell<u32>,
}

impl Timeouts {
    /// Counts the timeouts of a node from now on, unless it does already.
    pub(crate) fn add(&mut self, places: &Places, node: usize) -> io::Result<()> {
        if let Entry::Vacant(free) = self.nodes.entry(node) {
            let netstat = places.open_in(node, "/proc/thread-self/net/netstat")?;
            free.insert(Counter { netstat, seen: Cell::new(0) });
            self.take(node);
        }
        Ok(())
    }

    /// Returns the timeouts of a node since the last call.
    pub(crate) fn take(&self, node: usize) -> u32 {
        let Some(found) = self.nodes.get(&node) else { return 0 };
        let now = counter(&read_all(&found.netstat), "TCPTimeouts").unwrap_or(0) as u32;
        now.wrapping_sub(found.seen.replace(now))
    }
}

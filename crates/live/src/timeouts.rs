//! Retransmission timeouts of hosts.
//!
//! `TCP_INFO` has no count of them before Linux 6.7. The counter `TCPTimeouts` of a namespace
//! (/proc/net/netstat) counts those of all its connections. So the connection whose count is read
//! next gets all that were added since the last reading.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::sockets::Places;

/// The counters of the nodes that were added.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    nodes: BTreeMap<usize, Counter>,
    buffer: RefCell<Vec<u8>>,
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
        let Some(counter) = self.nodes.get(&node) else { return 0 };
        let mut buffer = self.buffer.borrow_mut();
        buffer.resize(LONGEST, 0);
        let bytes = counter.netstat.read_at(&mut buffer, 0).unwrap_or(0);
        let now = timeouts(&String::from_utf8_lossy(&buffer[..bytes])).unwrap_or(0);
        now.wrapping_sub(counter.seen.replace(now))
    }
}

/// Reads the counter: a line with names, and one with their values.
fn timeouts(netstat: &str) -> Option<u32> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut both = names.split(' ').zip(values.split(' '));
    let (_, value) = both.find(|&(name, _)| name == "TCPTimeouts")?;
    value.parse::<u64>().ok().map(|count| count as u32)
}

/// Room for the file, in bytes. It has about 4 KB.
const LONGEST: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_by_its_name() {
        let netstat = "TcpExt: SyncookiesSent TCPTimeouts TCPLossProbes\nTcpExt: 1 23 4\n\
                       IpExt: InNoRoutes\nIpExt: 7\n";
        assert_eq!(timeouts(netstat), Some(23));
        assert_eq!(timeouts("TcpExt: SyncookiesSent\nTcpExt: 1\n"), None);
    }

    #[test]
    fn the_kernel_has_the_counter() {
        let netstat = std::fs::read_to_string("/proc/thread-self/net/netstat");
        assert!(timeouts(&netstat.expect("every Linux has it")).is_some());
    }
}

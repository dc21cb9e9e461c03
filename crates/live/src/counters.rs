//! The counters of a namespace: /proc/net/netstat and /proc/net/snmp.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Reads a file of /proc from its start.
pub(crate) fn read_all(file: &File) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 1 << 14];
    while let Ok(count @ 1..) = file.read_at(&mut part, bytes.len() as u64) {
        bytes.extend(&part[..count]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the counter with this name: a line has names, and the next one their values.
pub(crate) fn counter(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let mut both = names.split(' ').zip(values.split(' '));
        if let Some((_, value)) = both.find(|&(found, _)| found == name) {
            return value.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_name() {
        let netstat = "TcpExt: SyncookiesSent TCPTimeouts TCPLossProbes\nTcpExt: 1 23 4\n\
                       IpExt: InNoRoutes\nIpExt: 7\n";
        assert_eq!(counter(netstat, "TCPTimeouts"), Some(23));
        assert_eq!(counter(netstat, "InNoRoutes"), Some(7));
        assert_eq!(counter("TcpExt: SyncookiesSent\nTcpExt: 1\n", "TCPTimeouts"), None);
    }

    #[test]
    fn the_kernel_has_the_counters() {
        for (file, name) in [("netstat", "TCPTimeouts"), ("snmp", "PassiveOpens")] {
            let path = format!("/proc/thread-self/net/{file}");
            let text = read_all(&File::open(path).expect("every Linux has it"));
            assert!(counter(&text, name).is_some(), "{name}");
        }
    }
}

//! Gives up privileges once everything is open.
//!
//! After attaching, nothing of what the daemon does needs a capability: maps, links and raw sockets are reached through
//! descriptors that are open, pins are files of its own user, the configuration and the secret are files that this user
//! may read. So all sets are emptied, the bounding set too, and `no_new_privs` keeps execve(2) from giving any back.
//! What stays is the user: root's files, without root's powers over others'.

use std::io;

use caps::CapSet;
use nix::sys::prctl;

/// Empties all capability sets of the process, sets `no_new_privs`, and hides its memory from other processes.
///
/// To be called before other threads are started, as each has its own sets.
///
/// # Errors
///
/// The system's.
pub fn drop_all() -> io::Result<()> {
    prctl::set_no_new_privs()?;
    // The secret is in memory: no core dump, no ptrace(2) by others of this user.
    prctl::set_dumpable(false)?;
    // The bounding set first: it needs CAP_SETPCAP, which the others hold. Without it there is nothing to bound.
    if caps::has_cap(None, CapSet::Effective, caps::Capability::CAP_SETPCAP).unwrap_or(false) {
        caps::clear(None, CapSet::Bounding).map_err(io::Error::other)?;
    }
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(io::Error::other)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left() {
        // In a thread of its own: capabilities are a thread's.
        let (status, no_new_privs) = std::thread::spawn(|| {
            drop_all().expect("giving up is allowed to all");
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("procfs");
            (status, prctl::get_no_new_privs().expect("it is known"))
        })
        .join()
        .expect("it ends");
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(set))
                .expect("each set has a line");
            assert_eq!(u64::from_str_radix(line.trim(), 16), Ok(0), "{set}");
        }
        assert!(no_new_privs);
        // Dumpable is the process's: other tests may want it.
        let _ = prctl::set_dumpable(true);
    }
}

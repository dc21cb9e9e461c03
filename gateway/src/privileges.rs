//! Gives up privileges once everything is open.
//!
//! After attaching, the daemon needs no capability. It reaches maps, links and raw sockets through
//! open descriptors. Pins are files of its own user, and this user may read the configuration and
//! the secret. So it empties all sets, including the bounding set, and sets `no_new_privs`, so that
//! execve(2) gives nothing back. What remains is the user: root's files, but no power over other
//! users' files.

use std::io;

use caps::CapSet;
use nix::sys::prctl;

/// Empties all capability sets of the process, sets `no_new_privs`, and hides its memory from other
/// processes.
///
/// Call this before starting other threads, because each thread has its own sets.
///
/// # Errors
///
/// Returns the system's error.
pub fn drop_all() -> io::Result<()> {
    prctl::set_no_new_privs()?;
    // The secret is in memory: no core dump, and no ptrace(2) by other processes of this user.
    prctl::set_dumpable(false)?;
    // The bounding set comes first, because that needs CAP_SETPCAP from the other sets. Without
    // CAP_SETPCAP there is nothing to bound.
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
        // In a separate thread, because capabilities belong to a thread.
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
        // The dumpable flag belongs to the process, and other tests may need it.
        let _ = prctl::set_dumpable(true);
    }
}

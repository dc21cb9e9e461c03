//! Where maps and links are pinned: `<bpffs>/narrows-gateway/<interface>/`. Outside the machine's
//! own network namespace, the last part is `<interface>@<number of the namespace>`, because two
//! namespaces may have interfaces of the same name.
//!
//! The daemon that serves the interface holds a lock on that directory.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use super::KernelError;
use super::links::Hook;
use crate::interface::namespace;

/// The directory of an interface's pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    bpffs: PathBuf,
    directory: PathBuf,
    interface: String,
}

/// Held while a daemon serves the interface, and released when it ends in any way.
#[derive(Debug)]
pub struct Lock {
    _directory: Flock<File>,
}

impl Pins {
    /// The directory for an interface in the network namespace of this process.
    pub fn of(bpffs: &Path, interface: &str) -> Self {
        let name = match namespace() {
            None | Some(1) => interface.to_owned(),
            Some(number) => format!("{interface}@{number}"),
        };
        let directory = bpffs.join("narrows-gateway").join(name);
        Self { bpffs: bpffs.into(), directory, interface: interface.into() }
    }

    /// Returns the gateway's first interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a pin.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the name of a link's pin. On the gateway's first interface it is the hook's name;
    /// other interfaces add theirs.
    pub fn link(&self, hook: Hook, interface: &str) -> String {
        if interface == self.interface {
            hook.pin().into()
        } else {
            format!("{}@{interface}", hook.pin())
        }
    }

    /// Returns the names of all pinned links.
    pub fn links(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.starts_with("link_")).collect()
    }

    /// Returns whether a pin exists.
    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Returns the names of all pins, sorted; none if the directory does not exist.
    pub fn names(&self) -> Vec<String> {
        let mut all: Vec<String> = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        all.sort();
        all
    }

    /// Mounts the bpf file system if necessary, and makes the directory. Returns whether the
    /// directory is new.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses.
    pub fn create(&self) -> Result<bool, KernelError> {
        let refused = |step: &str, error: &dyn std::fmt::Display| {
            KernelError::refused(format!("{step} {}", self.bpffs.display()), error)
        };
        if !is_bpffs(&self.bpffs) {
            fs::create_dir_all(&self.bpffs).map_err(|error| refused("making", &error))?;
            mount(
                Some("bpf"),
                &self.bpffs,
                Some("bpf"),
                MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
                Some("mode=0700"),
            )
            .map_err(|error| refused("mounting the bpf file system on", &io::Error::from(error)))?;
        }
        let new = !self.directory.exists();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(|error| refused("making a directory on", &error))?;
        Ok(new)
    }

    /// Takes the lock; `None` if a daemon has it.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be opened.
    pub fn lock(&self) -> io::Result<Option<Lock>> {
        match Flock::lock(File::open(&self.directory)?, FlockArg::LockExclusiveNonblock) {
            Ok(directory) => Ok(Some(Lock { _directory: directory })),
            Err((_, nix::Error::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }

    /// Removes a pin, if it exists.
    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Removes all pins and the directory, and its parent if that is empty then.
    ///
    /// # Errors
    ///
    /// Returns an error if a pin or the directory cannot be removed.
    pub fn remove_all(&self) -> io::Result<()> {
        for name in self.names() {
            fs::remove_file(self.path(&name))?;
        }
        match fs::remove_dir(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Other interfaces may have their pins there.
        let _ = fs::remove_dir(self.bpffs.join("narrows-gateway"));
        Ok(())
    }
}

fn is_bpffs(path: &Path) -> bool {
    statfs(path).is_ok_and(|about| about.filesystem_type() == BPF_FS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_interface() {
        let of = |interface| Pins::of(Path::new("/sys/fs/bpf"), interface).directory;
        assert_ne!(of("eth0"), of("eth1"));
        assert!(of("eth0").starts_with("/sys/fs/bpf/narrows-gateway"));
    }

    #[test]
    fn a_place_that_is_not_there_has_no_pins() {
        let pins = Pins::of(Path::new("/nowhere"), "eth0");
        assert!(pins.names().is_empty());
        assert!(!pins.has("flows"));
        assert!(pins.lock().is_err());
        assert!(pins.remove_all().is_ok());
    }
}

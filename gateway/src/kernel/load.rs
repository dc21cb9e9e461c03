//! Opens the programs, sets the sizes of their maps, takes over pinned maps that still fit, and
//! loads.
//!
//! A pinned map fits if its kind, its sizes and the shared structures (`layout.rs`) are those of the
//! programs. If only the number of elements differs, the elements are copied to a new map.
//! Otherwise the new map starts empty. Connections with a query under way then continue by their
//! cookie when the client sends the query again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};

use super::KernelError;
use super::about::About;
use super::layout;
use super::pins::Pins;
use super::skeleton::GatewaySkelBuilder;
use crate::config::Config;

/// Loaded programs and their maps, not yet attached.
#[derive(Debug)]
pub struct Loaded {
    /// The XDP program.
    pub xdp: OwnedFd,
    /// The program on tc ingress.
    pub adopt: OwnedFd,
    /// The program on tc egress.
    pub egress: OwnedFd,
    /// All maps by name.
    pub maps: BTreeMap<String, MapHandle>,
    /// Pinned maps that did not fit, by name. The new maps replace them.
    pub replaced: BTreeMap<String, MapHandle>,
    /// Maps that were taken over.
    pub reused: Vec<String>,
}

/// How many descriptors a load may open at once: one for each map (twice while it is taken over),
/// program and BTF, and those of libbpf's probes.
const DESCRIPTORS: usize = 128;

/// Fails if descriptors are lacking, of the process or of the machine.
///
/// libbpf (1.7) asks which features the kernel has by making maps and programs. If a descriptor is
/// lacking there, it takes the feature to be missing, leaves maps out, and fails later with EINVAL,
/// which nobody can tell from a wrong setting.
fn room_for_descriptors() -> Result<(), KernelError> {
    let taken: io::Result<Vec<_>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    taken.map(drop).map_err(|error| {
        KernelError::refused("opening the programs", format!("{error} ({DESCRIPTORS} are needed)"))
    })
}

/// Opens, sizes, takes over and loads.
///
/// # Errors
///
/// Returns an error if descriptors are lacking, or if the kernel refuses a map or a program.
pub fn load(config: &Config, pins: &Pins) -> Result<Loaded, KernelError> {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, on_print)));
    room_for_descriptors()?;
    let mut place: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let refused = |step: &str, error: libbpf_rs::Error| {
        KernelError::refused(step, format!("{error:#}{}", said()))
    };
    let mut open = GatewaySkelBuilder::default()
        .open(&mut place)
        .map_err(|error| refused("opening the programs", error))?;

    let ring = config.cache.ring;
    let rodata = open
        .maps
        .rodata_data
        .as_deref_mut()
        .ok_or_else(|| KernelError::refused("opening the programs", "no read-only data"))?;
    let margin = open.maps.ring.value_size() - rodata.RING_SIZE;
    rodata.RING_SIZE = ring;
    let sizes = [
        open.maps.ring.set_value_size(ring + margin),
        open.maps.flows.set_max_entries(config.cache.connections),
        open.maps.sources.set_max_entries(config.cache.sources),
        open.maps.places.set_max_entries(config.cache.sources),
        open.maps.large.set_max_entries(config.cache.names),
        open.maps.syncache_buckets.set_max_entries(config.syncache.hashsize),
    ];
    for size in sizes {
        size.map_err(|error| refused("setting the size of a map", error))?;
    }

    let same_layout =
        pins.has("about") && About::read(pins).is_some_and(|about| about.layout == layout::hash());
    let mut reused = Vec::new();
    let mut replaced = BTreeMap::new();
    for mut map in open.open_object_mut().maps_mut() {
        let Some(name) = map.name().to_str().map(str::to_owned) else { continue };
        if !is_pinned(&name) || !pins.has(&name) {
            continue;
        }
        let old = MapHandle::from_pinned_path(pins.path(&name))
            .map_err(|error| refused(&format!("opening {}", pins.path(&name).display()), error))?;
        let fits = same_layout
            && old.map_type() == map.map_type()
            && old.key_size() == map.key_size()
            && old.value_size() == map.value_size()
            && old.max_entries() == map.max_entries();
        if fits && map.reuse_fd(old.as_fd()).is_ok() {
            reused.push(name);
        } else {
            replaced.insert(name, old);
        }
    }

    let skel = open.load().map_err(|error| refused("loading the programs", error))?;
    let mut maps = BTreeMap::new();
    for map in libbpf_rs::skel::Skel::object(&skel).maps() {
        let Some(name) = map.name().to_str().filter(|name| is_pinned(name)) else { continue };
        let handle = MapHandle::try_from(&map).map_err(|error| refused("opening a map", error))?;
        maps.insert(name.to_owned(), handle);
    }
    let keep = |fd: std::os::fd::BorrowedFd<'_>| {
        fd.try_clone_to_owned().map_err(|error| KernelError::refused("keeping a program", error))
    };
    let loaded = Loaded {
        xdp: keep(skel.progs.gateway_xdp.as_fd())?,
        adopt: keep(skel.progs.gateway_adopt.as_fd())?,
        egress: keep(skel.progs.gateway_egress.as_fd())?,
        maps,
        replaced,
        reused,
    };
    if same_layout {
        loaded.carry_over();
        loaded.forget_old_ring();
    }
    Ok(loaded)
}

impl Loaded {
    /// Copies the elements of hash maps that were replaced only because of their size. Elements
    /// that the new map already has stay. Call it again once the new programs run, to copy what the
    /// old ones stored in the meantime.
    pub fn carry_over(&self) {
        for (name, old) in &self.replaced {
            let Some(new) = self.maps.get(name) else { continue };
            let same = old.map_type() == new.map_type()
                && old.key_size() == new.key_size()
                && old.value_size() == new.value_size();
            if !same || !matches!(old.map_type(), MapType::Hash | MapType::LruHash) {
                continue;
            }
            let Ok(elements) = old.lookup_batch(1024, MapFlags::ANY, MapFlags::ANY) else {
                continue;
            };
            for (key, value) in elements {
                // An element that already exists stays. One for which there is no room is lost.
                let _ = new.update(&key, &value, MapFlags::NO_EXIST);
            }
        }
    }

    /// Entries point into the ring. If the ring is new, this advances its head so far that the old
    /// positions count as overwritten.
    fn forget_old_ring(&self) {
        let (Some(_), Some(head), Some(ring)) =
            (self.replaced.get("ring"), self.maps.get("ring_head"), self.maps.get("ring"))
        else {
            return;
        };
        let before = self.replaced.get("ring_head").unwrap_or(head);
        let zero = 0u32.to_ne_bytes();
        let Ok(Some(bytes)) = before.lookup(&zero, MapFlags::ANY) else { return };
        let Some(next) = bytes.first_chunk::<4>().copied().map(u32::from_ne_bytes) else { return };
        let units = ring.value_size() / RING_UNIT;
        let _ = head.update(&zero, &next.wrapping_add(units).to_ne_bytes(), MapFlags::ANY);
    }
}

/// All maps of the programs are pinned, except the compiler's (`.rodata`).
fn is_pinned(name: &str) -> bool {
    !name.contains('.')
}

/// Bytes of one unit of the ring (`RING_UNIT` of `bpf/types.h`).
const RING_UNIT: u32 = 64;

thread_local! {
    static SAID: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn on_print(_: libbpf_rs::PrintLevel, text: String) {
    SAID.with_borrow_mut(|said| said.push(text));
}

/// Returns the line that matters of libbpf's messages since the last call, in parentheses.
fn said() -> String {
    let all = SAID.with_borrow_mut(std::mem::take).concat();
    telling(&all).map_or(String::new(), |line| format!(" ({line})"))
}

/// Returns the verifier's last message about a program, which says why it refuses the program. If
/// there is none, returns libbpf's first message.
fn telling(said: &str) -> Option<&str> {
    // These lines surround the verifier's messages: libbpf's own lines, its marks for the start
    // and end of the log, and the verifier's statistics.
    let around =
        |line: &str| ["libbpf:", "-- ", "processed "].iter().any(|start| line.starts_with(start));
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.iter().rev().find(|line| !around(line)).or(lines.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of libbpf's messages when Linux 6.12 refuses a program.
    #[test]
    fn the_verifiers_last_message_gives_the_reason() {
        let refusal = "libbpf: prog 'gateway_xdp': BPF program load failed: Permission denied\n\
            libbpf: prog 'gateway_xdp': -- BEGIN PROG LOAD LOG --\n\
            0: R1=ctx() R10=fp0\n\
            359: (85) call bpf_xdp_load_bytes#189\n\
            R4 invalid zero-sized read: u64=[0,4294967295]\n\
            processed 2192 insns (limit 1000000) max_states_per_insn 4 total_states 131\n\
            -- END PROG LOAD LOG --\n\
            libbpf: prog 'gateway_xdp': failed to load: -13\n";
        assert_eq!(telling(refusal), Some("R4 invalid zero-sized read: u64=[0,4294967295]"));
        let missing =
            "libbpf: map 'ring': failed to create: -ENOMEM\nlibbpf: failed to load object\n";
        assert_eq!(telling(missing), Some("libbpf: map 'ring': failed to create: -ENOMEM"));
        assert_eq!(telling(""), None);
    }
}

//! Reads whole maps with few system calls and without an allocation for each element. The daemon
//! does this once a second, with up to millions of entries.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapHandle, libbpf_sys};

use super::KernelError;
use super::settings::Plain;

/// How many elements the first call reads at once.
const BATCH: usize = 4096;

/// Reads all elements of a hash map. It may or may not see elements that come or go meanwhile.
///
/// # Errors
///
/// Returns an error if the kernel refuses, or keys or values have other sizes.
#[allow(unsafe_code, reason = "libbpf-rs has no such call without allocations")]
pub fn scan<K: Plain, V: Plain>(
    map: &MapHandle,
    mut on: impl FnMut(&K, &V),
) -> Result<(), KernelError> {
    if map.key_size() as usize != size_of::<K>() || map.value_size() as usize != size_of::<V>() {
        return Err(KernelError::pins("reading a map", "it is another version's"));
    }
    let mut keys = vec![K::default(); BATCH];
    let mut values = vec![V::default(); BATCH];
    // The kernel's position in the map: a bucket number (Linux kernel/bpf/hashtab.c,
    // __htab_map_lookup_and_delete_batch).
    let mut place = 0u32;
    let mut first = true;
    loop {
        let mut count = keys.len() as u32;
        let mut next = 0u32;
        let from = if first { std::ptr::null_mut() } else { std::ptr::from_mut(&mut place).cast() };
        // SAFETY: `keys` and `values` have room for `count` elements of the map's sizes, as checked
        // above, and positions have 32 bits. All of them outlive the call.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                from,
                std::ptr::from_mut(&mut next).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &mut count,
                std::ptr::null(),
            )
        };
        let error = if result < 0 {
            std::io::Error::from_raw_os_error(-result).raw_os_error()
        } else {
            None
        };
        match error {
            // ENOENT: this was the last batch.
            None | Some(nix::libc::ENOENT) => {
                for (key, value) in keys.iter().zip(&values).take(count as usize) {
                    on(key, value);
                }
                if error.is_some() || count == 0 {
                    return Ok(());
                }
            }
            // One bucket has more elements than there is room for.
            Some(nix::libc::ENOSPC) if keys.len() < 1 << 24 => {
                keys.resize(keys.len() * 2, K::default());
                values.resize(values.len() * 2, V::default());
                continue;
            }
            Some(number) => {
                return Err(KernelError::refused(
                    "reading a map",
                    std::io::Error::from_raw_os_error(number),
                ));
            }
        }
        place = next;
        first = false;
    }
}

//! What an interface's driver does with packets on its own: ethtool(8), through the ioctl of
//! linux/ethtool.h.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Returns the name of an interface's driver, such as "veth"; `None` if the system does not tell.
pub fn driver(interface: &str) -> Option<String> {
    let mut about = vec![0; DRIVER_INFO_BYTES];
    ask(interface, ETHTOOL_GDRVINFO, &mut about)?;
    text(about.get(4..36)?)
}

/// Its features that are on, such as "rx-lro", under the names of `ethtool -k`, and whether each
/// can be switched off; `None` if the system does not tell.
pub fn features(interface: &str) -> Option<BTreeMap<String, bool>> {
    // struct ethtool_sset_info: command, 0, a mask of 64 bits, and the number of strings in the
    // set.
    let mut count = vec![0; 20];
    count[8..16].copy_from_slice(&(1u64 << ETH_SS_FEATURES).to_ne_bytes());
    ask(interface, ETHTOOL_GSSET_INFO, &mut count)?;
    let count = word(&count, 16)? as usize;
    if count > FEATURES_MAX {
        return None;
    }
    // struct ethtool_gstrings: command, set, number, and as many strings.
    let mut names = vec![0; 12 + count * STRING_BYTES];
    names[4..8].copy_from_slice(&ETH_SS_FEATURES.to_ne_bytes());
    ask(interface, ETHTOOL_GSTRINGS, &mut names)?;
    // struct ethtool_gfeatures: command, number of blocks, then blocks of four words (available,
    // requested, active, never changed) with a bit for each feature.
    let blocks = count.div_ceil(32);
    let mut bits = vec![0; 8 + blocks * 16];
    bits[4..8].copy_from_slice(&(blocks as u32).to_ne_bytes());
    ask(interface, ETHTOOL_GFEATURES, &mut bits)?;
    let bit = |number: usize, which: usize| {
        let block = word(&bits, 8 + number / 32 * 16 + which * 4).unwrap_or(0);
        block >> (number % 32) & 1 == 1
    };
    let name = |number: usize| {
        let at = 12 + number * STRING_BYTES;
        text(names.get(at..at + STRING_BYTES)?)
    };
    let on = (0..count).filter(|&number| bit(number, ACTIVE));
    Some(
        on.filter_map(|number| {
            let switchable = bit(number, AVAILABLE) && !bit(number, NEVER_CHANGED);
            Some((name(number)?, switchable))
        })
        .collect(),
    )
}

/// Makes one request; `about` has room for the whole answer.
#[allow(unsafe_code, reason = "std and nix have no form of this request")]
fn ask(interface: &str, command: u32, about: &mut [u8]) -> Option<()> {
    let socket =
        socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).ok()?;
    about.get_mut(..4)?.copy_from_slice(&command.to_ne_bytes());
    let mut what = request(interface);
    what.ifr_ifru.ifru_data = about.as_mut_ptr().cast();
    // SAFETY: the kernel writes the command's structure, and the callers made room for it: a struct
    // ethtool_drvinfo, the number of the requested set, as many strings as that number, or as many
    // blocks as were requested (Linux net/ethtool/ioctl.c). All of them outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut what) };
    nix::errno::Errno::result(result).ok().map(|_| ())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn text(bytes: &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next()?).into_owned())
}

/// Returns a request about an interface.
#[allow(unsafe_code, reason = "a structure with a union")]
pub(crate) fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is plain old data, for which zeros are a valid value.
    let mut what: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in what.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from.cast_signed() as libc::c_char;
    }
    what
}

/// linux/sockios.h.
const SIOCETHTOOL: u32 = 0x8946;
// linux/ethtool.h.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETH_SS_FEATURES: u32 = 4;
/// Words of a `struct ethtool_get_features_block`.
const AVAILABLE: usize = 0;
const ACTIVE: usize = 2;
const NEVER_CHANGED: usize = 3;
/// ETH_GSTRING_LEN.
const STRING_BYTES: usize = 32;
/// Bytes of `struct ethtool_drvinfo`: the command, the driver's name in 32 bytes, and more.
const DRIVER_INFO_BYTES: usize = 196;
/// The most features, far more than any kernel has.
const FEATURES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_tells_its_features() {
        let on = features("lo").expect("each network namespace has it");
        // Linux drivers/net/loopback.c: it never computes checksums.
        assert_eq!(on.get("tx-checksum-ip-generic"), Some(&false), "{on:?}");
        assert_eq!((on.get("rx-gro"), on.get("rx-lro")), (Some(&true), None), "{on:?}");
    }

    #[test]
    fn an_unknown_interface_tells_nothing() {
        assert_eq!((driver("nowhere0"), features("nowhere0")), (None, None));
    }
}

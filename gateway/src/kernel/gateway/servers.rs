//! The server addresses in the maps, and their numbers.

use std::net::IpAddr;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::super::KernelError;

/// Gives each server address a number. Addresses that had one keep it, because entries refer to it.
pub(super) fn write_servers(map: &MapHandle, servers: &[IpAddr]) -> Result<(), KernelError> {
    let refused =
        |error: libbpf_rs::Error| KernelError::refused("writing the server addresses", error);
    let wanted: Vec<[u8; 16]> = servers.iter().map(|address| mapped(*address)).collect();
    let mut taken = [false; crate::config::SERVERS_MAX];
    let present: Vec<Vec<u8>> = map.keys().collect();
    for key in &present {
        let number = map
            .lookup(key, MapFlags::ANY)
            .map_err(refused)?
            .and_then(|value| value.first().copied());
        match number {
            Some(number) if wanted.iter().any(|address| address[..] == key[..]) => {
                if let Some(slot) = taken.get_mut(usize::from(number)) {
                    *slot = true;
                }
            }
            _ => map.delete(key).map_err(refused)?,
        }
    }
    for address in wanted.iter().filter(|address| !present.iter().any(|key| key[..] == address[..]))
    {
        let free = taken.iter().position(|taken| !taken);
        let free =
            free.ok_or_else(|| KernelError::refused("writing the server addresses", "too many"))?;
        taken[free] = true;
        map.update(address, &[free as u8], MapFlags::ANY).map_err(refused)?;
    }
    Ok(())
}

/// Returns an address in the form that the maps use: IPv4 as ::ffff:a.b.c.d.
fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_the_maps_have_them() {
        let v4 = mapped("192.0.2.53".parse().expect("an address"));
        assert_eq!(v4[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        assert_eq!(v4[12..], [192, 0, 2, 53]);
    }
}

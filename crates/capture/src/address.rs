//! Addresses for things that have only indices in the simulator. Their ports are in
//! [`narrows_sim::ports`].
//!
//! Addresses follow from the plan alone. So captures of different links of a run agree, and a
//! filter written for one run fits the next.

use std::net::Ipv4Addr;

use narrows_wire::Mac;

/// Returns the address of node `node`: 10.0.0.1 for node 0, and so on.
pub fn ip(node: usize) -> Ipv4Addr {
    let [_, a, b, c] = (node as u32).wrapping_add(1).to_be_bytes();
    Ipv4Addr::new(10, a, b, c)
}

/// Returns the MAC address of node `node` on all its links: 02:00:00:00:00:01 for node 0, and so
/// on; locally administered (IEEE 802, section 8.4).
pub fn mac(node: usize) -> Mac {
    let [a, b, c, d] = (node as u32).wrapping_add(1).to_be_bytes();
    Mac([2, 0, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes() {
        assert_eq!(ip(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(ip(70_000), Ipv4Addr::new(10, 1, 17, 113));
        assert_eq!(mac(255).to_string(), "02:00:00:00:01:00");
    }
}

//! Problems of an interface or of the kernel's settings that do not prevent a run. `check` warns of
//! them, and `run` logs them.
//!
//! Each sentence holds for what the sources beside it do. Features have the names that `ethtool -k`
//! gives them.

use std::collections::BTreeMap;
use std::fs;

use crate::config::Mode;
use crate::ethtool;
use crate::interface::Interface;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The interface.
    pub interface: String,
    /// Its driver.
    pub driver: Option<String>,
    /// Its features that are on, and whether each can be switched off.
    pub features: BTreeMap<String, bool>,
    /// VLAN interfaces on top of it.
    pub vlans: Vec<String>,
    /// Which of [`SETTINGS`] are 0.
    pub off: Vec<&'static str>,
}

/// The settings of the kernel's TCP, in /proc/sys/net/ipv4, that connections need which it takes
/// over.
pub const SETTINGS: [&str; 2] = ["tcp_timestamps", "tcp_sack"];

impl Facts {
    /// Examines an interface and the kernel's settings, in the network namespace of this process.
    pub fn of(interface: &Interface) -> Self {
        let is_off = |name: &&str| {
            let value = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
            value.is_ok_and(|text| text.trim() == "0")
        };
        Self {
            interface: interface.name.clone(),
            driver: ethtool::driver(&interface.name),
            features: ethtool::features(&interface.name).unwrap_or_default(),
            // The file is there only if the kernel has VLANs.
            vlans: fs::read_to_string("/proc/net/vlan/config")
                .map(|text| vlans(&text, &interface.name))
                .unwrap_or_default(),
            off: SETTINGS.into_iter().filter(is_off).collect(),
        }
    }

    /// Returns what an operator should know, one line each, with what to do. `native`: the run
    /// would use XDP in the driver.
    pub fn caveats(&self, wanted: Mode, native: bool) -> Vec<String> {
        let all = [
            self.checksums(),
            self.veth(wanted, native),
            self.tags(native),
            self.merging("rx-lro", "lro", native),
            self.merging("rx-gro-hw", "rx-gro-hw", native),
        ];
        let off = self.off.iter().map(|name| setting(name));
        all.into_iter().flatten().chain(off).collect()
    }

    /// Segments leave with csum_start where the UDP header was, ten bytes into the TCP header.
    /// These drivers ignore it and take the header's place and kind from skb_transport_offset and
    /// the IP header: ena_tx_csum, netvsc_xmit, mana_start_xmit, rtl8169_tso_csum_v2 of Linux 6.
    fn checksums(&self) -> Option<String> {
        let driver = self.driver.as_deref().filter(|driver| {
            ["ena", "hv_netvsc", "mana", "r8169"].contains(driver)
                && self.features.keys().any(|name| name.starts_with("tx-checksum-ip"))
        })?;
        Some(format!(
            "the driver of {name} ({driver}) puts checksums in another place than it is told, which damages replies; hint: ethtool -K {name} tx off",
            name = self.interface
        ))
    }

    /// Frames that native XDP sends wake the other end of a veth pair only if that end has an XDP
    /// program (veth_xdp_flush of Linux 6). The gateway cannot see from here whether it has one.
    fn veth(&self, wanted: Mode, native: bool) -> Option<String> {
        let what = match (native, wanted) {
            (true, _) => "hint: --mode generic, unless the other end has one",
            (false, Mode::Auto) => {
                "auto uses generic XDP; hint: --mode native, if the other end has one"
            }
            _ => return None,
        };
        (self.driver.as_deref() == Some("veth")).then(|| {
            format!(
                "{} is a veth device, which loses what native XDP sends unless its other end has an XDP program; {what}",
                self.interface
            )
        })
    }

    /// A tag that the hardware removed is in the packet's descriptor, where XDP does not see it, so
    /// what XDP sends back has no tag. The kernel restores the tag of packets that XDP passes.
    fn tags(&self, native: bool) -> Option<String> {
        let first = self.vlans.first()?;
        (native && self.features.contains_key("rx-vlan-hw-parse")).then(|| {
            format!(
                "{name} takes VLAN tags off before XDP sees them, so clients of {first} would be answered without a tag; hint: ethtool -K {name} rxvlan off",
                name = self.interface
            )
        })
    }

    /// Packets that the hardware merged. generic_xdp_install (Linux 6, net/core/dev.c) switches
    /// that off for good if it can. With native XDP the driver must do so.
    fn merging(&self, feature: &str, flag: &str, native: bool) -> Option<String> {
        let name = &self.interface;
        let what = match (native, *self.features.get(feature)?) {
            (true, true) => {
                format!("and some drivers refuse native XDP then; hint: ethtool -K {name} {flag} off")
            }
            (true, false) => {
                "and some drivers refuse native XDP then; hint: auto and --mode generic use generic XDP in that case".into()
            }
            (false, true) => format!(
                "and generic XDP turns it off for good; hint: ethtool -K {name} {flag} on, after a detach"
            ),
            (false, false) => return None,
        };
        Some(format!("{name} has {feature} on, {what}"))
    }
}

/// The cost of a setting that is 0. bpf_sk_assign_tcp_reqsk of Linux 6.9 (net/core/filter.c)
/// refuses options that are switched off, and the gateway then leaves out what it can (PROTOCOL.md,
/// "Adoption").
fn setting(name: &str) -> String {
    let cost = match name {
        "tcp_timestamps" => {
            "connections that the kernel takes over lose their timestamps, and clients may drop segments without them (RFC 7323, 3.2)"
        }
        _ => "connections that the kernel takes over lose SACK, and recover from loss more slowly",
    };
    format!("net.ipv4.{name} is 0: {cost}; hint: sysctl net.ipv4.{name}=1")
}

/// Returns the VLAN interfaces on top of this one, from /proc/net/vlan/config: two heading lines,
/// then `name | number | device`.
fn vlans(text: &str, interface: &str) -> Vec<String> {
    let fields = text.lines().skip(2).map(|line| line.split('|').map(str::trim));
    fields
        .filter_map(|mut fields| {
            let name = fields.next()?;
            (fields.nth(1)? == interface).then(|| name.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(driver: &str, features: &[&str]) -> Facts {
        Facts {
            interface: "eth0".into(),
            driver: Some(driver.into()),
            features: features.iter().map(|&name| (name.into(), true)).collect(),
            ..Facts::default()
        }
    }

    /// The one caveat.
    fn only(facts: &Facts, native: bool) -> String {
        let mut all = facts.caveats(Mode::Auto, native);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains("; hint: ") && all[0].lines().count() == 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn an_ordinary_interface_has_none() {
        let on = ["tx-checksum-ip-generic", "rx-checksum", "rx-gro", "rx-vlan-hw-parse"];
        for native in [true, false] {
            assert_eq!(facts("virtio_net", &on).caveats(Mode::Auto, native), [""; 0]);
        }
    }

    #[test]
    fn drivers_that_look_for_the_header_need_their_checksums_off() {
        for driver in ["ena", "hv_netvsc", "mana", "r8169"] {
            for feature in ["tx-checksum-ipv4", "tx-checksum-ipv6", "tx-checksum-ip-generic"] {
                let said = only(&facts(driver, &[feature]), true);
                assert!(
                    said.contains(driver) && said.ends_with("ethtool -K eth0 tx off"),
                    "{said}"
                );
            }
            assert_eq!(facts(driver, &["tx-checksum-sctp"]).caveats(Mode::Auto, true), [""; 0]);
        }
    }

    #[test]
    fn tags_that_xdp_does_not_see_matter_where_there_are_vlans() {
        let mut of = facts("ixgbe", &["rx-vlan-hw-parse"]);
        of.vlans = vec!["eth0.7".into()];
        assert!(only(&of, true).contains("clients of eth0.7 would be answered without a tag"));
        // There the tag stays with the packet.
        assert_eq!(of.caveats(Mode::Auto, false), [""; 0]);
        of.features.clear();
        assert_eq!(of.caveats(Mode::Auto, true), [""; 0]);
    }

    #[test]
    fn vlans_are_those_of_the_interface() {
        let text = "VLAN Dev name    | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n\
                    eth0.7         | 7  | eth0\neth00.8        | 8  | eth00\nuplink         | 9  | eth0\n";
        assert_eq!(vlans(text, "eth0"), ["eth0.7", "uplink"]);
        assert_eq!(vlans("", "eth0"), [""; 0]);
        assert_eq!(vlans("a\nb\nc\n|\n||\n", "eth0"), [""; 0]);
    }

    #[test]
    fn merging_in_hardware_is_named_by_mode() {
        for (feature, flag) in [("rx-lro", "lro"), ("rx-gro-hw", "rx-gro-hw")] {
            let mut of = facts("mlx5_core", &[feature]);
            assert!(only(&of, true).ends_with(&format!("ethtool -K eth0 {flag} off")));
            assert!(only(&of, false).contains("generic XDP turns it off"));
            // As virtio_net reports it if the host leaves no choice.
            of.features.insert(feature.into(), false);
            assert!(only(&of, true).ends_with("use generic XDP in that case"));
            assert_eq!(of.caveats(Mode::Auto, false), [""; 0]);
        }
    }

    #[test]
    fn a_veth_device_is_named_but_where_generic_was_asked_for() {
        let of = facts("veth", &[]);
        assert!(only(&of, true).contains("hint: --mode generic"));
        assert!(only(&of, false).contains("hint: --mode native"));
        assert_eq!(of.caveats(Mode::Generic, false), [""; 0]);
    }

    #[test]
    fn settings_that_are_off_are_named_with_what_they_cost() {
        for name in SETTINGS {
            let of = Facts { off: vec![name], ..facts("ixgbe", &[]) };
            let said = only(&of, true);
            assert!(said.starts_with(&format!("net.ipv4.{name} is 0: ")), "{said}");
            assert!(said.ends_with(&format!("sysctl net.ipv4.{name}=1")), "{said}");
        }
    }
}

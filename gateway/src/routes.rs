//! The routes by which replies leave this machine. A gateway turns the server's datagrams into TCP
//! only if they leave through one of its interfaces. If the route to a client leads through another
//! interface, its replies stay datagrams, which the client's TCP never sees. The kernel's TCP
//! answers that client after `patience`.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::interface::Interface;
use crate::netlink::Netlink;

/// Returns what an operator should know about routes through other interfaces, one line each, with
/// what to do.
pub fn caveats(interfaces: &[Interface]) -> Vec<String> {
    let served: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
    let all: BTreeSet<String> =
        ["-4", "-6"].iter().flat_map(|family| beyond(&routes(family), &served)).collect();
    let line = |name: String| {
        let first = served.first().copied().unwrap_or_default();
        format!(
            "some routes lead out by {name}, which is not served: clients there wait until the kernel's TCP answers; hint: --interface {first} --interface {name}"
        )
    };
    all.into_iter().map(line).collect()
}

/// Looks up the routes of replies while a gateway runs.
#[derive(Debug)]
pub struct Routes {
    netlink: Netlink,
}

impl Routes {
    /// Opens the socket, which needs no privilege.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn open() -> io::Result<Self> {
        Netlink::open().map(|netlink| Self { netlink })
    }

    /// Returns the interface through which a datagram would leave, if it is not one of these.
    pub fn beyond(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        served: &[Interface],
    ) -> Option<String> {
        let index = self.netlink.route_of_datagram(from, to).ok()??;
        if served.iter().any(|interface| interface.index == index) {
            return None;
        }
        let all = nix::net::if_::if_nameindex().ok()?;
        let found = all.iter().find(|interface| interface.index() == index)?;
        Some(found.name().to_string_lossy().into_owned())
    }
}

/// Returns what `ip -j route` prints for an address family; null if it prints nothing.
fn routes(family: &str) -> Value {
    let arguments = [family, "-j", "route", "show", "table", "all"];
    let output =
        Command::new("ip").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
}

/// Interfaces other than `served` that have routes through a router. An interface's own network is
/// not counted: clients there come in through that interface, where this gateway is not.
fn beyond(routes: &Value, served: &[&str]) -> BTreeSet<String> {
    let of = |hop: &Value| {
        let routed = hop.get("gateway").is_some() || hop.get("via").is_some();
        let name = hop["dev"].as_str().filter(|name| routed && !served.contains(name))?;
        Some(name.to_owned())
    };
    let mut found = BTreeSet::new();
    for route in routes.as_array().into_iter().flatten() {
        found.extend(of(route));
        found.extend(route["nexthops"].as_array().into_iter().flatten().filter_map(of));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As iproute2 6.1 prints it.
    #[test]
    fn routes_by_other_interfaces_are_found() {
        let routes: Value = serde_json::from_str(
            r#"[{"dst":"default","flags":[],"nexthops":[
                  {"gateway":"192.0.2.1","dev":"eth0","weight":1,"flags":[]},
                  {"gateway":"203.0.113.1","dev":"eth1","weight":1,"flags":[]}]},
                {"dst":"198.18.0.0/15","via":{"family":"inet6","host":"fe80::1"},"dev":"eth2","flags":[]},
                {"dst":"172.17.0.0/16","dev":"docker0","protocol":"kernel","scope":"link","flags":[]},
                {"type":"local","dst":"192.0.2.2","dev":"eth0","table":"local","flags":[]},
                {"type":"blackhole","dst":"10.0.0.0/8","flags":[]}]"#,
        )
        .expect("JSON");
        let found = |served: &[&str]| beyond(&routes, served).into_iter().collect::<Vec<_>>();
        assert_eq!(found(&["eth0"]), ["eth1", "eth2"]);
        assert_eq!(found(&["eth0", "eth1", "eth2"]), [""; 0]);
        assert!(beyond(&Value::Null, &["eth0"]).is_empty());
        assert!(beyond(&serde_json::json!([1, {"nexthops": 3}]), &["eth0"]).is_empty());
    }
}

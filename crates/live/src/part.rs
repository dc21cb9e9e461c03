//! Where the nodes of a plan are, and which of them a process plays.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

use narrows_apps::Settings;
use narrows_sim::plan::{Application, Kind, Plan};

use crate::real::Real;

/// The part of a plan that a process plays.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The nodes that it plays, by name.
    ///
    /// An application is played if all its nodes are. One with some nodes here and some elsewhere is
    /// refused.
    pub places: BTreeMap<String, Place>,
    /// Whether sysctls and routes of the nodes already follow the plan's TCP settings and the limits
    /// of its listeners. Otherwise, settings without a socket option are refused.
    pub prepared: bool,
    /// The servers that are programs of their own.
    pub real: Real,
    /// What it plays of applications whose other ends are elsewhere, at the addresses of their
    /// places; `None`: it plays both ends.
    pub split: Option<Split>,
}

/// The ends that a process plays if the other ends are elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// What they do.
    pub role: Role,
    /// Their node, by name.
    pub node: String,
}

/// What the ends do that a process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// They accept connections of bulk traffic, and answer DNS queries.
    Serve,
    /// They open connections of bulk traffic.
    Drive,
    /// They ask DNS queries.
    Resolve,
}

impl Split {
    /// Returns whether it plays an application. All connections of bulk traffic are played, even if
    /// none has an end here, so that they have the same rows in the table `flows` everywhere.
    fn plays(&self, kind: &Kind, plan: &Plan) -> Result<bool, &'static str> {
        match kind {
            Kind::Bulk(_) => Ok(self.role != Role::Resolve),
            Kind::DnsServer(_) => Ok(true),
            Kind::DnsClient(client) => {
                let tls = client.tcp.as_ref().and_then(|tcp| tcp.tls.as_ref());
                if tls.is_some_and(|tls| tls.https.is_some() || tls.quic.is_some()) {
                    return Err("HTTPS and QUIC need both ends in one process");
                }
                let node = &plan.nodes[plan.paths[client.there].from];
                Ok(self.role == Role::Resolve && *node == self.node)
            }
            _ => Err("only bulk traffic and DNS can have ends in several processes"),
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "serve" => Ok(Self::Serve),
            "drive" => Ok(Self::Drive),
            "resolve" => Ok(Self::Resolve),
            _ => Err(format!("{name:?} is not serve, drive or resolve")),
        }
    }
}

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The address of its sockets.
    pub address: Ipv4Addr,
    /// Other addresses, for some of its sockets.
    #[serde(default)]
    pub also: Vec<Also>,
    /// For each flood that starts here, by its index into the plan's applications: a network of
    /// addresses, with 16 bits for hosts, that it forges. No host may have one of them, and packets
    /// to them must be discarded here.
    #[serde(default)]
    pub forged: BTreeMap<u32, Ipv4Addr>,
    /// Its network namespace, such as `/run/netns/NAME`; `None`: that of the process.
    #[serde(default)]
    pub namespace: Option<PathBuf>,
}

/// An address for some of a node's sockets.
///
/// A kernel sets ECN, the initial window and the shortest timeout by route. Connections that differ
/// in these need addresses of their own, and so do several servers of a node at the same port.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct Also {
    /// Which sockets have it.
    #[serde(flatten)]
    pub of: Use,
    /// The address.
    pub address: Ipv4Addr,
}

/// What a socket is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
pub struct Use {
    /// The client's TCP settings: an index into the plan's; `None`: datagrams.
    pub tcp: Option<usize>,
    /// The server: an index into the plan's applications; `None`: one application has both ends.
    pub server: Option<u32>,
}

impl Place {
    /// Creates a place in the namespace of this process.
    pub const fn at(address: Ipv4Addr) -> Self {
        Self { address, also: Vec::new(), forged: BTreeMap::new(), namespace: None }
    }
}

impl Part {
    /// Returns which applications of a plan it plays, in their order.
    ///
    /// Servers are always among them: they do something only at nodes to which a client's path
    /// leads.
    ///
    /// # Errors
    ///
    /// Returns, in one line, a place without a node, or an application that plays here and
    /// elsewhere.
    pub(crate) fn played(&self, plan: &Plan) -> Result<Vec<bool>, String> {
        if let Some(name) = self.places.keys().find(|name| !plan.nodes.contains(name)) {
            return Err(format!("{name}: the plan has no such node"));
        }
        if let Some(split) = &self.split {
            if !self.places.contains_key(&split.node) {
                return Err(format!("{}: it has no place", split.node));
            }
            let plays = |one: &Application| {
                split.plays(&one.kind, plan).map_err(|why| format!("{}: {why}", one.name))
            };
            return plan.applications.iter().map(plays).collect();
        }
        let environment = plan.environment();
        let mut played = Vec::with_capacity(plan.applications.len());
        for application in &plan.applications {
            let uses = application.kind.uses(&environment);
            let nodes = uses.iter().flat_map(|found| {
                let path = &plan.paths[found.path];
                [&plan.nodes[path.from], &plan.nodes[path.to]]
            });
            let is_here = |node: &&String| self.places.contains_key(*node);
            let (here, elsewhere): (Vec<_>, Vec<_>) = nodes.partition(is_here);
            if let (Some(here), Some(elsewhere)) = (here.first(), elsewhere.first()) {
                return Err(format!(
                    "{}: plays at {here}, and at {elsewhere}, which is not in this part",
                    application.name
                ));
            }
            played.push(elsewhere.is_empty());
        }
        Ok(played)
    }
}

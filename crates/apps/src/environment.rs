//! What an application knows of the rest of the plan: names and lengths, but no queue, no link's
//! rate, and of other applications only what they serve.

use narrows_transport::tcp;
use narrows_units::settings::any;
use narrows_units::{Time, keys};

/// The IPv4 header without options (RFC 791, section 3.1), in bytes.
pub const IP_HEADER: u16 = 20;
/// The UDP header (RFC 768), in bytes.
pub const UDP_HEADER: u16 = 8;
/// The shortest fragment: a header and one byte.
pub const SHORTEST_FRAGMENT: u16 = IP_HEADER + 1;

/// What an application knows of the rest of the plan. Indices are the plan's.
#[derive(Clone, Debug)]
pub struct Environment<'a> {
    /// When the run ends at the latest.
    pub end: Time,
    /// The nodes' names.
    pub nodes: &'a [String],
    /// The name of each link, and its MTU in bytes.
    pub links: Vec<(&'a str, u16)>,
    /// Paths through the network. When an application makes its tables, there are none.
    pub paths: &'a [Path],
    /// TCP settings.
    pub tcp: &'a [tcp::Config],
    /// The name of each application, and what it serves. When an application makes its tables,
    /// there are none.
    pub applications: Vec<(&'a str, Option<Service>)>,
}

keys! {
    #[derive(Eq)]
    /// A path through the network.
    pub struct Path {
        /// Where it starts: an index into `nodes`.
        from: usize = 0, any();
        /// Where it ends: an index into `nodes`.
        to: usize = 0, any();
        /// Its links in order: indices into `links`.
        links: Vec<usize> = Vec::new(), any();
    }
}

/// What a server offers to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// What it answers.
    pub protocol: Protocol,
    /// Whether it uses TLS if a client does.
    pub tls: bool,
    /// Whether it uses HTTPS if a client does.
    pub https: bool,
    /// Whether it uses QUIC if a client does.
    pub quic: bool,
    /// Whether it uses HTTP/3 if a client does.
    pub http3: bool,
}

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// DNS queries.
    Dns,
    /// Requests for a number of bytes.
    Bytes,
    /// Calls of applications at the same machine that need a name.
    Names,
}

/// A path in use, and the shortest IP packet that some application sends along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// An index into the plan's paths.
    pub path: usize,
    /// The length of the IP packet before it is cut into fragments.
    pub bytes: u16,
    /// Whether it is DNS, which some links do not delay.
    pub dns: bool,
}

impl Use {
    /// The length of TCP's shortest IP packet: an acknowledgement without options.
    pub const ACK: u16 = 40;
}

impl Environment<'_> {
    /// Checks that `there` and `back` are paths between the same two nodes, in opposite directions.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in one line.
    pub fn check_round_trip(&self, there: usize, back: usize) -> Result<(), String> {
        check_round_trip(self.paths, there, back)
    }

    /// Checks that there are TCP settings with this index.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in one line.
    pub fn check_tcp(&self, tcp: usize) -> Result<(), String> {
        if tcp < self.tcp.len() { Ok(()) } else { Err("tcp: no such settings".into()) }
    }

    /// Returns what an application serves, if it answers this protocol.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in one line.
    pub fn server(&self, server: usize, protocol: Protocol) -> Result<Service, String> {
        match self.applications.get(server) {
            None => Err("server: no such application".into()),
            Some(&(_, Some(service))) if service.protocol == protocol => Ok(service),
            Some((name, _)) => Err(format!("server: {name:?} answers nothing like this")),
        }
    }

    /// Returns the use of a path by datagrams of `shortest` to `longest` bytes, IP header included.
    pub(crate) fn datagrams(&self, path: usize, (shortest, longest): (u16, u16), dns: bool) -> Use {
        let mtus = self.paths[path].links.iter().map(|&link| self.links[link].1);
        let fits = mtus.min().is_none_or(|mtu| longest <= mtu);
        let bytes = if fits { shortest } else { shortest.min(SHORTEST_FRAGMENT) };
        Use { path, bytes, dns }
    }
}

/// Checks that `there` and `back` are paths between the same two nodes, in opposite directions.
///
/// # Errors
///
/// Returns what is wrong, in one line.
pub fn check_round_trip(paths: &[Path], there: usize, back: usize) -> Result<(), String> {
    let path = |index: usize| paths.get(index).ok_or("path: no such path");
    let (there, back) = (path(there)?, path(back)?);
    if (there.from, there.to) != (back.to, back.from) {
        return Err("path: the way back does not lead back".into());
    }
    Ok(())
}

//! `check --deep`: real connections, from a network namespace of their own, to each server address.
//!
//! A veth pair joins that namespace to this one, and a gateway of its own, with the configuration's settings, serves this end
//! of it. So the way is that of any client: SYN cookies, the query's datagram, the server, the reply, and what the kernel's
//! TCP takes over, through the machine's packet filter and settings. What differs is the interface's name, generic XDP,
//! and the client's address, from the network for such tests (198.18.0.0/15, RFC 2544; 2001:2::/48, RFC 5180). All of it goes with
//! the process, however that ends.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use narrows_gateway::config::{Active, Config, Mode};
use narrows_gateway::core::Counter;
use narrows_gateway::interface::Interface;
use narrows_gateway::kernel::Gateway;
use narrows_gateway::server::query;
use narrows_units::Bytes;
use nix::sched::{CloneFlags, unshare};

/// What one server address made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) server: SocketAddr,
    /// What failed first, and why; `None`: nothing did.
    pub(crate) failed: Option<String>,
}

/// Connects to each server address, asks, and says what came of it; an error is that it could not be tried.
pub(crate) fn check(config: &Config) -> Result<Vec<Outcome>, String> {
    let interface = Interface::find(&config.interface).map_err(|error| error.to_string())?;
    let scratch = Scratch::make(interface.index)?;
    let own = own_config(config, &scratch.host);
    let host = Interface::find(&scratch.host).map_err(|error| error.to_string())?;
    // What a run that was killed left.
    let _ = narrows_gateway::kernel::gateway::detach(&own);
    let (gateway, _) = Gateway::start(&own, &[host], None).map_err(|error| error.to_string())?;
    let outcomes = config
        .servers
        .iter()
        .map(|&address| {
            let server = SocketAddr::new(address, config.port);
            let before = gateway.counters().unwrap_or_default();
            let failed = scratch.converse(server)?;
            let after = gateway.counters().unwrap_or_default();
            let more = |counter| of(&after, counter) - of(&before, counter);
            let failed = failed.or_else(|| late(more));
            let failed = failed.map(|failed| format!("{failed}: {}", why(failed.step, more)));
            Ok(Outcome { server, failed })
        })
        .collect();
    gateway.detach().map_err(|error| error.to_string())?;
    outcomes
}

/// The settings under which it is tried: the configuration's, for this interface, and small.
fn own_config(config: &Config, host: &str) -> Config {
    let mut own = config.clone();
    own.interface = host.into();
    own.more_interfaces.clear();
    own.mode = Mode::Generic;
    own.active = Active::ALL;
    own.secret = None;
    own.metrics = None;
    own.cache.connections = 1024;
    own.cache.sources = 1024;
    own.cache.ring = Bytes::new(1 << 20);
    own.limits.query_rate = 0;
    own.limits.adoptions = 0;
    own.syncache.active = false;
    own
}

fn of(counters: &[(Counter, u64)], counter: Counter) -> u64 {
    counters.iter().find(|(other, _)| *other == counter).map_or(0, |(_, n)| *n)
}

/// What is tried, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Connection,
    Query,
    Second,
    Many,
    Split,
}

/// A step that failed.
#[derive(Clone, Debug)]
struct Failed {
    step: Step,
    how: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.step {
            Step::Connection => "a connection",
            Step::Query => "a first query",
            Step::Second => "a second query on the connection",
            Step::Many => "many queries at once, and their replies",
            Step::Split => "a query in two parts",
        };
        write!(f, "{what}: {}", self.how)
    }
}

/// All is answered, but what should be over UDP is by the kernel's TCP, after the server's time was over.
fn late(more: impl Fn(Counter) -> u64) -> Option<Failed> {
    let how = "the kernel's TCP had to answer it".into();
    (more(Counter::ToKernelSilent) > 0).then_some(Failed { step: Step::Query, how })
}

/// The likely cause, by what the programs counted.
fn why(step: Step, more: impl Fn(Counter) -> u64) -> &'static str {
    match step {
        Step::Connection if more(Counter::SynPassed) > 0 => {
            "the server has no UDP socket there, or its listener has MPTCP, so the kernel has the connection, and does not take it; hint: is the server listening?"
        }
        Step::Connection if more(Counter::SynAside) > 0 => {
            "the kernel has new connections, as net.ipv4.tcp_syncookies is 0, and does not take it; hint: sysctl net.ipv4.tcp_syncookies=1"
        }
        Step::Connection if more(Counter::Syn) == 0 => {
            "no SYN came to the programs; hint: rules of bridges or tc that are for all interfaces"
        }
        Step::Connection => "the SYN was answered, and the answer lost",
        Step::Query if more(Counter::Query) == 0 => "no query came to the programs",
        Step::Query if more(Counter::Reply) + more(Counter::ReplySegmented) == 0 => {
            "its datagram got no reply; hint: rules of the packet filter about UDP to the server, or the server's access list (the client is in 198.18.0.0/15 or 2001:2::/48)"
        }
        Step::Query => "it was answered, and the answer lost",
        _ if more(Counter::AdoptFailed) > 0 => {
            "the kernel did not take the connection over; hint: does the server listen on TCP, and is net.ipv4.tcp_syncookies on?"
        }
        _ if more(Counter::Adopted) == 0 => {
            "nothing was taken over by the kernel; hint: rules of the packet filter that no new TCP connection passes"
        }
        _ => {
            "the kernel took the connection over, and what it then sends or gets is dropped; hint: rules of the packet filter about TCP to the server, or its access list"
        }
    }
}

/// A namespace with a client, joined to this one.
struct Scratch {
    /// The interface here.
    host: String,
    tell: Sender<SocketAddr>,
    told: Receiver<Option<Failed>>,
}

impl Scratch {
    fn make(number: u32) -> Result<Self, String> {
        let host = format!("nrwdeep{number}");
        let addresses = Addresses::of(number);
        let (tell, jobs) = channel::<SocketAddr>();
        let (say, told) = channel();
        let (is, was) = channel();
        // A thread has its own namespace, which goes with it, and with that both ends of the pair.
        std::thread::Builder::new()
            .name("scratch".into())
            .spawn(move || {
                let made = unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error.desc());
                let gone = is.send(made.map(|()| nix::unistd::gettid())).is_err();
                // The first word says that the pair is there.
                while let (false, Ok(server)) = (gone, jobs.recv()) {
                    let failed = if server.port() == 0 {
                        addresses
                            .client_end()
                            .err()
                            .map(|how| Failed { step: Step::Connection, how })
                    } else {
                        converse(server).err()
                    };
                    if say.send(failed).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| error.to_string())?;
        let thread = match was.recv() {
            Ok(Ok(thread)) => thread.to_string(),
            Ok(Err(error)) => return Err(format!("making a network namespace: {error}")),
            Err(error) => return Err(error.to_string()),
        };
        ip(&["link", "add", &host, "type", "veth", "peer", "name", PEER, "netns", &thread])?;
        let scratch = Self { host, tell, told };
        addresses.host_end(&scratch.host)?;
        let ready = SocketAddr::from(([0, 0, 0, 0], 0));
        match scratch.converse(ready)? {
            Some(failed) => Err(failed.how),
            None => Ok(scratch),
        }
    }

    /// Has the client ask a server.
    fn converse(&self, server: SocketAddr) -> Result<Option<Failed>, String> {
        let gone = || "the client's thread has ended".to_owned();
        self.tell.send(server).map_err(|_| gone())?;
        self.told.recv().map_err(|_| gone())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The other end would take it along a little later.
        let _ = ip(&["link", "del", &self.host]);
    }
}

/// The client's interface, in its own namespace.
const PEER: &str = "nrwdeep";

/// Of both ends; each gateway of a machine has others, by its first interface's number.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    number: u32,
}

impl Addresses {
    fn of(number: u32) -> Self {
        Self { number }
    }

    fn v4(self, last: u32) -> Ipv4Addr {
        // The upper half of 198.18.0.0/15, in networks of four.
        Ipv4Addr::from(0xc613_0000 | (self.number << 2 & 0xfffc) | last)
    }

    fn v6(self, last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 2, 0, (self.number & 0xffff) as u16, 0, 0, 0, last)
    }

    fn put(self, link: &str, last: u16) -> Result<(), String> {
        let (v4, v6) = (self.v4(last.into()), self.v6(last));
        ip(&["address", "add", &format!("{v4}/30"), "dev", link])?;
        // Where the kernel has no IPv6, no server address is of it.
        let _ = ip(&["address", "add", &format!("{v6}/64"), "dev", link, "nodad"]);
        ip(&["link", "set", link, "up"])
    }

    fn host_end(self, link: &str) -> Result<(), String> {
        self.put(link, 1)
    }

    fn client_end(self) -> Result<(), String> {
        self.put(PEER, 2)?;
        ip(&["route", "add", "default", "via", &self.v4(1).to_string()])?;
        let _ = ip(&["-6", "route", "add", "default", "via", &self.v6(1).to_string()]);
        Ok(())
    }
}

/// Runs ip(8), in the namespace of this thread.
fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("running ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {}: {}", arguments.join(" "), said.trim()))
}

/// How long each answer may take.
const WAIT: Duration = Duration::from_secs(3);
/// Queries that are sent at once: their replies are more than the client's first window in segments.
const MANY: u16 = 200;

/// A client's two connections to a server.
fn converse(server: SocketAddr) -> Result<(), Failed> {
    let at = |step| move |error: io::Error| Failed { step, how: words(&error) };
    let mut stream = connect(server).map_err(at(Step::Connection))?;
    for (id, step) in [(1, Step::Query), (2, Step::Second)] {
        stream.write_all(&prefixed(id)).map_err(at(step))?;
        receive(&mut stream).map_err(at(step))?;
    }
    let all: Vec<u8> = (0..MANY).flat_map(prefixed).collect();
    stream.write_all(&all).map_err(at(Step::Many))?;
    for _ in 0..MANY {
        receive(&mut stream).map_err(at(Step::Many))?;
    }
    let mut stream = connect(server).map_err(at(Step::Connection))?;
    let query = prefixed(3);
    stream.write_all(&query[..1]).map_err(at(Step::Split))?;
    std::thread::sleep(Duration::from_millis(20));
    stream.write_all(&query[1..]).map_err(at(Step::Split))?;
    receive(&mut stream).map_err(at(Step::Split)).map(drop)
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, WAIT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(WAIT))?;
    Ok(stream)
}

/// A query with its two bytes of length (RFC 1035, 4.2.2), and with an OPT record (RFC 6891, 6.1.2): one that the gateway
/// adds it takes off the reply again, and where a refusal has none, it leaves that to the kernel's TCP.
fn prefixed(id: u16) -> Vec<u8> {
    let mut query = query(id).to_vec();
    query[11] = 1;
    query.extend([0, 0, 41, 1232u16.to_be_bytes()[0], 1232u16.to_be_bytes()[1], 0, 0, 0, 0, 0, 0]);
    [&(query.len() as u16).to_be_bytes()[..], &query].concat()
}

/// The next reply.
fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer in {} s", WAIT.as_secs())
        }
        io::ErrorKind::UnexpectedEof => "closed before the answer".into(),
        _ => {
            let text = error.to_string().to_lowercase();
            text.split(" (os error").next().unwrap_or(&text).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_the_networks_for_tests() {
        for number in [1, 2, 63, 0xffff_ffff] {
            let addresses = Addresses::of(number);
            assert_eq!(addresses.v4(2).octets()[..2], [198, 19]);
            assert_eq!(addresses.v6(2).segments()[..3], [0x2001, 2, 0]);
        }
        assert_eq!(Addresses::of(2).v4(1).to_string(), "198.19.0.9");
        assert_eq!(Addresses::of(2).v6(2).to_string(), "2001:2:0:2::2");
    }

    #[test]
    fn the_cause_is_told_by_what_was_counted() {
        let of = |step, counted: &'static [Counter]| {
            why(step, |counter| u64::from(counted.contains(&counter)))
        };
        assert!(of(Step::Second, &[Counter::AdoptFailed]).contains("tcp_syncookies"));
        assert!(of(Step::Query, &[Counter::Query]).contains("UDP"));
        assert!(of(Step::Many, &[Counter::Adopted]).contains("dropped"));
        assert!(of(Step::Connection, &[]).contains("no SYN"));
    }
}

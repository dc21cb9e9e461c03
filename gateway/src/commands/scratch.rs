//! A network namespace with a client, which a veth pair joins to this namespace, and the client's
//! queries.
//!
//! The namespace belongs to a thread and disappears with it, and so does the pair, even if the
//! process is killed. After the setup, the thread drops its privileges, because asking needs none.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use narrows_gateway::privileges;
use narrows_gateway::rate_limit::Burst;
use narrows_gateway::server::query;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};

/// What is tried, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Connection,
    Query,
    Second,
    Many,
    Split,
}

/// A step that failed.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) step: Step,
    pub(super) how: String,
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

/// Whose namespace it is; both may exist at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// `check --deep`.
    Check,
    /// `run`.
    Run,
}

impl Owner {
    /// Returns the name of the interface on this side. The number is that of the gateway's first
    /// interface.
    pub(super) fn link(self, number: u32) -> String {
        match self {
            Self::Check => format!("nrwdeep{number}"),
            Self::Run => format!("nrwself{number}"),
        }
    }
}

/// What the client is to do.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// Set its addresses.
    Begin,
    /// Connect and ask, with this many queries at once.
    Converse(SocketAddr, u16),
    /// Send this many queries over UDP within a second.
    Burst(SocketAddr, u16),
}

/// What the client found.
#[derive(Clone, Debug)]
enum Outcome {
    /// What failed first; `None`: nothing.
    Conversed(Option<Failed>),
    /// What came back of a burst.
    Burst(Result<Burst, String>),
}

/// A namespace with a client, joined to this one.
#[derive(Debug)]
pub(super) struct Scratch {
    /// The interface on this side.
    pub(super) host: String,
    /// `None` once it is ending.
    tell: Option<Sender<Job>>,
    outcomes: Receiver<Outcome>,
}

impl Scratch {
    pub(super) fn make(owner: Owner, number: u32) -> Result<Self, String> {
        let host = owner.link(number);
        // The interface of a killed run disappears by itself, but only a little later.
        remove(&host);
        let addresses = Addresses { owner, number };
        let (tell, jobs) = channel::<Job>();
        let (say, outcomes) = channel();
        let (is, was) = channel();
        // A thread has its own namespace. When it ends, the namespace and both ends of the pair
        // disappear.
        std::thread::Builder::new()
            .name("scratch".into())
            .spawn(move || {
                let made = unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error.desc());
                let gone = is.send(made.map(|()| nix::unistd::gettid())).is_err();
                // The first message says that the pair exists.
                while let (false, Ok(job)) = (gone, jobs.recv()) {
                    let drop_all = || privileges::drop_all().map_err(|error| words(&error));
                    let failed = |how| Failed { step: Step::Connection, how };
                    let outcome = match job {
                        Job::Begin => Outcome::Conversed(
                            addresses.client_end().and_then(|()| drop_all()).err().map(failed),
                        ),
                        Job::Converse(server, many) => {
                            Outcome::Conversed(converse(server, many).err())
                        }
                        Job::Burst(server, queries) => {
                            Outcome::Burst(Burst::send(server, queries).map_err(|why| words(&why)))
                        }
                    };
                    if say.send(outcome).is_err() {
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
        let scratch = Self { host, tell: Some(tell), outcomes };
        addresses.host_end(&scratch.host)?;
        scratch.tell(Job::Begin)?;
        match scratch.outcomes.recv().map_err(|_| GONE)? {
            Outcome::Conversed(Some(failed)) => Err(failed.how),
            _ => Ok(scratch),
        }
    }

    /// Makes the client ask a server, with this many queries at once.
    pub(super) fn begin(&self, server: SocketAddr, many: u16) -> Result<(), String> {
        self.tell(Job::Converse(server, many))
    }

    /// Makes the client send this many queries over UDP within a second, and returns what came back.
    pub(super) fn burst(&self, server: SocketAddr, queries: u16) -> Result<Burst, String> {
        self.tell(Job::Burst(server, queries))?;
        match self.outcomes.recv().map_err(|_| GONE)? {
            Outcome::Burst(burst) => burst,
            Outcome::Conversed(_) => Err(GONE.into()),
        }
    }

    /// Returns the result; `None` while the client is still asking.
    pub(super) fn outcome(&self) -> Result<Option<Option<Failed>>, String> {
        match self.outcomes.try_recv() {
            Ok(Outcome::Conversed(failed)) => Ok(Some(failed)),
            Err(TryRecvError::Empty) => Ok(None),
            Ok(Outcome::Burst(_)) | Err(TryRecvError::Disconnected) => Err(GONE.into()),
        }
    }

    fn tell(&self, job: Job) -> Result<(), String> {
        let sent = self.tell.as_ref().map(|tell| tell.send(job).is_ok());
        if sent == Some(true) { Ok(()) } else { Err(GONE.into()) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.tell = None;
        // Without privileges, only the end of the thread removes it, a little later.
        remove(&self.host);
        let until = Instant::now() + Duration::from_secs(2);
        while if_nametoindex(self.host.as_str()).is_ok() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Removes what a killed run left, if the kernel has not done so yet.
pub(super) fn remove(host: &str) {
    if if_nametoindex(host).is_ok() {
        let _ = ip(&["link", "del", host]);
    }
}

const GONE: &str = "the client's thread has ended";

/// The client's interface, in its own namespace.
const PEER: &str = "nrwdeep";

/// The addresses of both ends. They differ for each gateway of a machine, by the number of its
/// first interface, and for each owner.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    owner: Owner,
    number: u32,
}

impl Addresses {
    fn place(self) -> u32 {
        self.number << 1 | u32::from(self.owner == Owner::Run)
    }

    fn v4(self, last: u32) -> Ipv4Addr {
        // The upper half of 198.18.0.0/15, in networks of four.
        Ipv4Addr::from(0xc613_0000 | (self.place() << 2 & 0xfffc) | last)
    }

    fn v6(self, last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 2, 0, (self.place() & 0xffff) as u16, 0, 0, 0, last)
    }

    fn put(self, link: &str, last: u16) -> Result<(), String> {
        let (v4, v6) = (self.v4(last.into()), self.v6(last));
        ip(&["address", "add", &format!("{v4}/30"), "dev", link])?;
        // If the kernel has no IPv6, no server address needs it.
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
/// A client's two connections to a server. `many` queries are sent at once on the first one, after
/// two others.
fn converse(server: SocketAddr, many: u16) -> Result<(), Failed> {
    let at = |step| move |error: io::Error| Failed { step, how: words(&error) };
    let mut stream = connect(server).map_err(at(Step::Connection))?;
    for (id, step) in [(1, Step::Query), (2, Step::Second)] {
        stream.write_all(&prefixed(id)).map_err(at(step))?;
        receive(&mut stream).map_err(at(step))?;
    }
    let all: Vec<u8> = (0..many).flat_map(prefixed).collect();
    stream.write_all(&all).map_err(at(Step::Many))?;
    for _ in 0..many {
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

/// Returns a query with its two bytes of length (RFC 1035, 4.2.2) and an OPT record (RFC 6891,
/// 6.1.2). Without one, the gateway would add it and have to remove it from the reply; and a
/// refusal without OPT would go to the kernel's TCP.
fn prefixed(id: u16) -> Vec<u8> {
    let mut query = query(id);
    query[11] = 1;
    query.extend([0, 0, 41, 1232u16.to_be_bytes()[0], 1232u16.to_be_bytes()[1], 0, 0, 0, 0, 0, 0]);
    [&(query.len() as u16).to_be_bytes()[..], &query].concat()
}

/// Returns the next reply.
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
            let addresses = Addresses { owner: Owner::Run, number };
            assert_eq!(addresses.v4(2).octets()[..2], [198, 19]);
            assert_eq!(addresses.v6(2).segments()[..3], [0x2001, 2, 0]);
        }
        let [check, run] = [Owner::Check, Owner::Run].map(|owner| Addresses { owner, number: 2 });
        assert_eq!(check.v4(1).to_string(), "198.19.0.17");
        assert_eq!(check.v6(2).to_string(), "2001:2:0:4::2");
        assert_eq!(run.v4(1).to_string(), "198.19.0.21");
        assert_eq!(run.v6(2).to_string(), "2001:2:0:5::2");
    }
}

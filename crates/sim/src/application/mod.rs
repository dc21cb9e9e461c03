//! Applications: what uses the network, and the interface through which it does.
//!
//! ```text
//!                      opened, received, delivered, closed, datagram, timer
//!                 <------------------------------------------------------------
//!   [ application ]                                                      [ host: transports ]
//!                 ------------------------------------------------------------>
//!                      connect, accept, send, close, abort, datagram, wake
//! ```
//!
//! An application is told what happens ([`Application`]) and asks its [`Host`] for what it wants.
//! It knows sockets, messages and times, and no packets, links or queues. One object serves a whole
//! traffic group, or one server; it numbers its own connections and timers.
//!
//! To add a kind of traffic: a file with its settings (`Settings`) and its behaviour
//! ([`Application`]), and a line in the list at the end of this file. One from outside of this crate
//! goes into a plan by [`Kind::custom`].

pub mod bulk;
pub mod connection;
mod custom;
pub mod dns;
mod draw;
pub mod flood;
mod host;
pub mod incast;
pub mod on_off;
pub mod page;
pub mod ping;
pub mod responder;
pub mod streams;
pub mod trace;
pub mod transfer;
pub mod udp;
pub mod voip;

use core::fmt;

use narrows_units::Time;

pub use self::custom::{Custom, Outside};
pub use self::draw::Draw;
pub use self::host::{Association, Dial, Host, View};
use crate::plan::Plan;
use crate::record::Records;
pub use crate::shortcuts::Use;
use crate::table::Table;

/// What runs at a host, or at several: it is told what happens.
///
/// Each call hands it the [`Host`] through which it acts. Methods have empty defaults; implement those
/// that you need.
pub trait Application: fmt::Debug + Send + Sync {
    /// The run begins, at time zero: the moment for listening and for setting the first timers.
    fn start(&mut self, host: &mut Host<'_>);

    /// A timer that [`Host::wake`] set has come; `token` is the number given there.
    fn timer(&mut self, _host: &mut Host<'_>, _token: u32) {}

    /// A connection is established, as seen from this end.
    fn opened(&mut self, _host: &mut Host<'_>, _socket: Socket) {}

    /// A connection waits to be [accepted](Host::accept).
    fn arrived(&mut self, _host: &mut Host<'_>) {}

    /// A part of a message has come, and the rest is on its way. The second end of a connection alone is
    /// told, because servers close connections whose clients are too slow.
    fn begun(&mut self, _host: &mut Host<'_>, _socket: Socket) {}

    /// The last byte of a message has come, in order.
    fn received(&mut self, _host: &mut Host<'_>, _socket: Socket, _message: Message) {}

    /// All bytes that this end has written are acknowledged, and it had
    /// asked (`Host::tell_delivery`) to know.
    fn delivered(&mut self, _host: &mut Host<'_>, _socket: Socket) {}

    /// The other end writes no more, or the connection is over.
    fn closed(&mut self, _host: &mut Host<'_>, _socket: Socket, _how: Closed) {}

    /// A datagram has come.
    fn datagram(&mut self, _host: &mut Host<'_>, _datagram: Datagram) {}

    /// A datagram of one of this application's associations was lost. No host could know; it is for
    /// the record.
    fn lost(&mut self, _host: &mut Host<'_>, _datagram: Datagram, _loss: Lost) {}

    /// Whether all it has to do is done; servers and traffic without end always say so.
    fn is_done(&self) -> bool {
        true
    }

    /// Which share of what it has to do is done, 0 to 1; `None`: it has no end.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Adds rows for what is going on at the end of the run.
    fn add_unfinished(&self, _flows: &View<'_>, _records: &mut Records) {}

    /// Tables of its own, beyond those of [`Records`]. Applications may share a table's name; their
    /// rows then follow one another, and the columns have to be the same. The plan, without applications and paths, has the names of
    /// links and nodes.
    fn tables(&self, _plan: &Plan) -> Vec<Table> {
        Vec::new()
    }
}

/// The settings of a kind of application, as a plan holds them.
pub(crate) trait Settings {
    /// Whether an application can live by this plan; gives the number of flows that it sets up.
    ///
    /// # Errors
    ///
    /// What is wrong, in one line that begins with the setting.
    fn check(&self, plan: &Plan) -> Result<usize, String>;

    /// The paths that it sends along, each with the shortest packet.
    fn uses(&self, plan: &Plan) -> Vec<Use>;

    /// DNS queries that it may ask.
    fn queries(&self) -> u64 {
        0
    }

    /// The application itself.
    fn build(self, name: &str) -> Box<dyn Application>;
}

/// An end of a connection, as applications call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    /// Twice the flow, plus one for its second end.
    pub(crate) end: u32,
    pub(crate) generation: u8,
}

impl Socket {
    pub(crate) const fn flow(self) -> u32 {
        self.end / 2
    }

    /// 0 for the flow's first end, 1 for its second.
    pub(crate) const fn side(self) -> usize {
        self.end as usize % 2
    }

    /// The other end of the connection.
    #[must_use]
    pub const fn other(self) -> Self {
        Self { end: self.end ^ 1, generation: self.generation }
    }
}

/// What an application sends: so many bytes, and what both ends know of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Payload bytes.
    pub bytes: u32,
    /// The sender's number for it.
    pub tag: u32,
    /// What else the bytes say; the applications give it its meaning.
    pub notes: [u32; 2],
}

/// A datagram that has come, or was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it belongs.
    pub association: Association,
    /// The socket of the first end: it sent the datagram, or is to get it.
    pub socket: u32,
    /// Whether it goes from the second end to the first, as a server's answer does.
    pub goes_back: bool,
    /// What it carries.
    pub message: Message,
}

/// Where and why a datagram was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// An index into the plan's links.
    pub link: u32,
    /// Why.
    pub reason: LossReason,
}

pub use crate::network::{LossReason, Objection, Sent};

/// How a direction, or all of a connection, came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The other end has sent its last byte and a FIN.
    ByPeer,
    /// Both ends have closed, and everything is acknowledged.
    Done,
    /// Nobody listens: the SYN was answered with a reset.
    Refused,
    /// The other end sent a reset.
    Reset,
    /// Too many retransmissions went unanswered.
    TimedOut,
}

/// Whether every application is done.
pub(crate) fn all_done(applications: &[Box<dyn Application>]) -> bool {
    applications.iter().all(|application| application.is_done())
}

/// The least progress of the applications that have an end, 0 to 1.
pub(crate) fn progress(applications: &[Box<dyn Application>]) -> f64 {
    applications.iter().filter_map(|application| application.progress()).fold(1.0, f64::min)
}

/// Whether this is a moment of the run; `Time::MAX` stands for never.
pub(crate) fn is_moment(at: Time) -> bool {
    at < Time::MAX
}

/// Declares [`Kind`] from the list of kinds.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident($settings:ty),)+) => {
        /// The kinds of applications, with their settings.
        #[derive(Clone, Debug)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize, serde::Deserialize),
            serde(rename_all = "kebab-case")
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum Kind {
            $($(#[doc = $doc])+ $name($settings),)+
            /// One that is not ours; it has no form in a plan that is written down.
            #[cfg_attr(feature = "serde", serde(skip))]
            Custom(Custom),
        }

        impl Settings for Kind {
            fn check(&self, plan: &Plan) -> Result<usize, String> {
                match self { $(Self::$name(settings) => settings.check(plan),)+ Self::Custom(custom) => custom.check(plan) }
            }

            fn uses(&self, plan: &Plan) -> Vec<Use> {
                match self { $(Self::$name(settings) => settings.uses(plan),)+ Self::Custom(custom) => custom.uses(plan) }
            }

            fn queries(&self) -> u64 {
                match self { $(Self::$name(settings) => settings.queries(),)+ Self::Custom(_) => 0 }
            }

            fn build(self, name: &str) -> Box<dyn Application> {
                match self { $(Self::$name(settings) => settings.build(name),)+ Self::Custom(custom) => custom.build(name) }
            }
        }
    };
}

kinds! {
    /// Data without end.
    Bulk(bulk::Bulk),
    /// Bursts, with idle times between them: `on-off`, `once` and `ftp` of the scenario language.
    OnOff(on_off::OnOff),
    /// Resolver workers in a closed loop.
    DnsClient(dns::client::Client),
    /// A DNS server.
    DnsServer(dns::server::Server),
    /// Datagrams at a rate.
    Udp(udp::Udp),
    /// Datagrams at listed times.
    Trace(trace::Trace),
    /// Probes that are answered at once.
    Ping(ping::Ping),
    /// Telephone calls.
    Voip(voip::Voip),
    /// A server of as many bytes as it is asked for.
    Responder(responder::Responder),
    /// A client that asks many servers at once.
    Incast(incast::Incast),
    /// SYNs or queries from forged addresses.
    Flood(flood::Flood),
    /// Secondaries that fetch a zone.
    Transfer(transfer::Transfer),
    /// Browsers that load a page.
    Page(page::Page),
}

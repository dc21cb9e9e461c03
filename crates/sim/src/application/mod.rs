//! Applications: what uses the network, and the interface through which it does so.
//!
//! ```text
//!                      opened, received, delivered, closed, datagram, timer
//!                 <------------------------------------------------------------
//!   [ application ]                                                      [ host: transports ]
//!                 ------------------------------------------------------------>
//!                      connect, accept, send, close, abort, datagram, wake
//! ```
//! An application receives notices ([`Application`]) and acts through its [`Host`]. It knows
//! sockets, messages and times, but no packets, links or queues. One object serves a whole traffic
//! group, or one server, and numbers its own connections and timers.
//!
//! To add a kind of traffic, write a file with its settings (`Settings`) and its behaviour
//! ([`Application`]), and add a line to the list at the end of this file. A kind from outside this
//! crate goes into a plan by [`Kind::custom`].

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
pub mod secure;
pub mod streams;
pub mod trace;
pub mod transfer;
pub mod udp;
pub mod voip;

use core::fmt;

use narrows_units::Time;

pub use self::custom::{Custom, Outside};
pub use self::draw::Draw;
pub use self::host::{Dial, Host, View};
pub use crate::message::{Datagram, LossReason, Lost, Message, Objection, Sent};
use crate::plan::Plan;
use crate::record::Records;
pub use crate::shortcuts::Use;
pub use crate::socket::{Association, Socket};
use crate::table::Table;
pub use crate::transport::Closed;

/// An application that runs at one or several hosts and receives notices.
///
/// Each call passes the [`Host`] through which it acts. Methods have empty defaults; implement
/// those that you need.
pub trait Application: fmt::Debug + Send + Sync {
    /// Starts the application at time zero. Listen and set the first timers here.
    fn start(&mut self, host: &mut Host<'_>);

    /// Handles a timer that was set by [`Host::wake`]; `token` is the number given there.
    fn timer(&mut self, _host: &mut Host<'_>, _token: u32) {}

    /// Called when a connection is established, as seen from this end.
    fn opened(&mut self, _host: &mut Host<'_>, _socket: Socket) {}

    /// Called when a connection waits to be [accepted](Host::accept).
    fn arrived(&mut self, _host: &mut Host<'_>) {}

    /// Called when a part of a message has arrived and the rest is on its way. Only the second end
    /// of a connection gets this notice, because servers close connections whose clients are too
    /// slow.
    fn begun(&mut self, _host: &mut Host<'_>, _socket: Socket) {}

    /// Called when a flight of a TLS handshake has arrived. This end answers it by itself.
    fn shook(&mut self, _host: &mut Host<'_>, _socket: Socket) {}

    /// Called when a message has arrived completely and in order.
    fn received(&mut self, _host: &mut Host<'_>, _socket: Socket, _message: Message) {}

    /// Called when everything that this end has written is acknowledged. The notice comes only
    /// after a request (`Host::tell_delivery`).
    fn delivered(&mut self, _host: &mut Host<'_>, _socket: Socket) {}

    /// Called when the other end writes no more, or when the connection is over.
    fn closed(&mut self, _host: &mut Host<'_>, _socket: Socket, _how: Closed) {}

    /// Called when a datagram has arrived.
    fn datagram(&mut self, _host: &mut Host<'_>, _datagram: Datagram) {}

    /// Called when a datagram of one of this application's associations was lost. No real host
    /// could know this; it is for the records alone, so there is no host to act on.
    fn lost(&mut self, _records: &mut Records, _datagram: Datagram, _loss: Lost) {}

    /// Returns whether it has nothing left to do. Servers and endless traffic always return true.
    fn is_done(&self) -> bool {
        true
    }

    /// Returns how much of its work is done, from 0 to 1, or `None` if the work has no end.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Adds rows for whatever is going on at the end of the run.
    fn add_unfinished(&self, _flows: &View<'_>, _records: &mut Records) {}

    /// Returns tables of its own, beyond those of [`Records`]. Applications may share a table's
    /// name if the columns are the same; their rows are then concatenated. The plan has the names
    /// of links and nodes, but no applications and paths.
    fn tables(&self, _plan: &Plan) -> Vec<Table> {
        Vec::new()
    }
}

/// The settings of a kind of application, as they stand in a plan.
pub(crate) trait Settings {
    /// Checks whether an application can work with this plan. Returns the number of flows that it
    /// sets up.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in one line that begins with the setting.
    fn check(&self, plan: &Plan) -> Result<usize, String>;

    /// Returns the paths along which it sends, each with the shortest packet.
    fn uses(&self, plan: &Plan) -> Vec<Use>;

    /// Returns the number of DNS queries that it may ask.
    fn queries(&self) -> u64 {
        0
    }

    /// Creates the application.
    fn build(self, name: &str) -> Box<dyn Application>;
}

/// Returns whether every application is done.
pub(crate) fn all_done(applications: &[Box<dyn Application>]) -> bool {
    applications.iter().all(|application| application.is_done())
}

/// Returns the least progress of the applications whose work has an end, 0 to 1.
pub(crate) fn progress(applications: &[Box<dyn Application>]) -> f64 {
    applications.iter().filter_map(|application| application.progress()).fold(1.0, f64::min)
}

/// Returns whether this is a time of the run; `Time::MAX` stands for never.
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
            /// One from outside this crate. It cannot appear in a written plan.
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
    /// Endless data.
    Bulk(bulk::Bulk),
    /// Bursts with idle times between them: `on-off`, `once` and `ftp` of the scenario language.
    OnOff(on_off::OnOff),
    /// Resolver workers in a closed loop.
    DnsClient(dns::client::Client),
    /// A DNS server.
    DnsServer(dns::server::Server),
    /// Datagrams at a given rate.
    Udp(udp::Udp),
    /// Datagrams at listed times.
    Trace(trace::Trace),
    /// Probes that are answered at once.
    Ping(ping::Ping),
    /// Telephone calls.
    Voip(voip::Voip),
    /// A server that returns as many bytes as it is asked for.
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

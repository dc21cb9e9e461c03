//! What every application is: its behaviour ([`Application`]) and its settings ([`Settings`]).

use core::fmt;

use narrows_transport::{Closed, quic};
use narrows_units::Time;

use crate::record::Records;
use crate::table::{Head, Table};
use crate::{Datagram, Environment, Host, Lost, Message, Service, Socket, Use, View};

/// An application that runs at one or several hosts and receives notices.
///
/// Each call passes the [`Host`] through which it acts. Methods have empty defaults; implement
/// those that you need.
pub trait Application: fmt::Debug + Send + Sync {
    /// Starts the application at time zero. Listen and set the first timers here.
    fn start(&mut self, host: &mut dyn Host);

    /// Handles a timer that was set by [`Host::wake`]; `token` is the number given there.
    fn timer(&mut self, _host: &mut dyn Host, _token: u32) {}

    /// Called when a connection is established, as seen from this end.
    fn opened(&mut self, _host: &mut dyn Host, _socket: Socket) {}

    /// Called when a connection waits to be [accepted](Host::accept).
    fn arrived(&mut self, _host: &mut dyn Host) {}

    /// Called when a part of a message has arrived and the rest is on its way. Only the second end
    /// of a connection gets this call, because servers close connections whose clients are too
    /// slow.
    fn first_byte(&mut self, _host: &mut dyn Host, _socket: Socket) {}

    /// Called when a flight of a TLS handshake has arrived. This end answers it by itself.
    fn flight_arrived(&mut self, _host: &mut dyn Host, _socket: Socket) {}

    /// Called when a message has arrived completely and in order.
    fn received(&mut self, _host: &mut dyn Host, _socket: Socket, _message: Message) {}

    /// Called when everything that this end has written is acknowledged. The call comes only
    /// after a request (`Host::tell_delivery`).
    fn delivered(&mut self, _host: &mut dyn Host, _socket: Socket) {}

    /// Called when the other end writes no more, or when the connection is over.
    fn closed(&mut self, _host: &mut dyn Host, _socket: Socket, _how: Closed) {}

    /// Called when another application at the same machine tells it something ([`Host::notify`]).
    /// `from` is that application.
    fn notified(&mut self, _host: &mut dyn Host, _from: u32, _notes: [u32; 2]) {}

    /// Called when a datagram has arrived.
    fn datagram(&mut self, _host: &mut dyn Host, _datagram: Datagram) {}

    /// Called when a datagram of one of this application's associations was lost; `None`: nobody
    /// knows where, but it has not arrived by the end of the run. No real host could know this; it
    /// is for the records alone, so there is no host to act on.
    fn lost(&mut self, _records: &mut Records, _datagram: Datagram, _loss: Option<Lost>) {}

    /// Returns whether it has nothing left to do. Servers and endless traffic always return true.
    fn is_done(&self) -> bool {
        true
    }

    /// Returns how much of its work is done, from 0 to 1, or `None` if the work has no end.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Adds rows for whatever is going on at the end of the run.
    fn add_unfinished(&self, _flows: &dyn View, _records: &mut Records) {}

    /// Returns tables of its own, beyond those of [`Records`]. Applications may share a table's
    /// name if the columns are the same; their rows are then concatenated.
    fn tables(&self, _environment: &Environment<'_>) -> Vec<Table> {
        Vec::new()
    }
}

/// The settings of a kind of application, as they stand in a plan.
pub trait Settings {
    /// Checks whether an application can work with the rest of the plan. Returns the number of flows
    /// that it sets up.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in one line that begins with the setting.
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String>;

    /// Returns the paths along which it sends, each with the shortest packet.
    fn uses(&self, environment: &Environment<'_>) -> Vec<Use>;

    /// Returns the number of DNS queries that it may ask.
    fn queries(&self) -> u64 {
        0
    }

    /// Returns what it serves; `None`: it is no server.
    fn service(&self) -> Option<Service> {
        None
    }

    /// Returns its QUIC settings, if it uses QUIC.
    fn quic(&self) -> Option<&quic::Config> {
        None
    }

    /// Returns the declarations of the tables that it adds to those of [`Records`].
    fn heads() -> &'static [Head]
    where
        Self: Sized,
    {
        &[]
    }

    /// Creates the application.
    fn build(self, name: &str) -> Box<dyn Application>;
}

/// Returns whether every application is done.
pub fn all_done(applications: &[Box<dyn Application>]) -> bool {
    applications.iter().all(|application| application.is_done())
}

/// Returns the least progress of the applications whose work has an end, 0 to 1.
pub fn progress(applications: &[Box<dyn Application>]) -> f64 {
    applications.iter().filter_map(|application| application.progress()).fold(1.0, f64::min)
}

/// Returns whether this is a time of the run; `Time::MAX` stands for never.
pub(crate) fn is_moment(at: Time) -> bool {
    at < Time::MAX
}

//! The TCP connections of a traffic group. They exist from the start of the run and open at times
//! that the plan sets.

use narrows_units::settings::any;
use narrows_units::{Time, keys, words};

use crate::{Environment, Host, Random, Socket, Transfer, Use, is_moment};

keys! {
    /// A TCP connection.
    pub struct Connection {
        /// Its unique name. Its random streams are derived from it.
        name: String = String::new(), any();
        /// The path from the data's sender to its receiver: an index into the plan's paths.
        there: usize = 0, any();
        /// The path from receiver to sender: an index into the plan's paths.
        back: usize = 0, any();
        /// The settings of both ends: an index into the plan's `tcp`.
        tcp: usize = 0, any();
        /// Which end sends the SYN.
        opener: Opener = Opener::Sender, any();
        /// When the connection is opened.
        start: Time = Time::ZERO, any();
        /// When the application stops. It writes nothing from then on, and the connection closes
        /// after what was written before. Endless data stop at once.
        stop: Option<Time> = None, any();
    }
}

words! {
    /// The end that opens a connection.
    ///
    /// This matters if one direction is congested: a repeated SYN no longer asks for ECN (RFC 3168,
    /// 6.1.1.1; Linux's `tcp_ecn_fallback`).
    pub enum Opener {
        /// The data's sender: an upload.
        Sender = "sender",
        /// The data's receiver: a download.
        Receiver = "receiver",
    }
}

/// Checks that all connections of a group are possible. Returns their number.
pub(crate) fn check(
    connections: &[Connection],
    environment: &Environment<'_>,
) -> Result<usize, String> {
    for connection in connections {
        check_one(connection, environment).map_err(|why| format!("{}: {why}", connection.name))?;
    }
    Ok(connections.len())
}

fn check_one(connection: &Connection, environment: &Environment<'_>) -> Result<(), String> {
    environment.check_round_trip(connection.there, connection.back)?;
    environment.check_tcp(connection.tcp)?;
    if !is_moment(connection.start) {
        return Err("start: is too late".into());
    }
    if connection.stop.is_some_and(|stop| stop <= connection.start) {
        return Err("stop: must be after start".into());
    }
    Ok(())
}

/// Returns the paths along which a group's connections send.
pub(crate) fn uses(connections: &[Connection], environment: &Environment<'_>) -> Vec<Use> {
    const HEADERS: u16 = 20 + 20;
    const TIMESTAMPS: u16 = 12;
    let of_one = |connection: &Connection| {
        let options = if environment.tcp[connection.tcp].timestamps { TIMESTAMPS } else { 0 };
        [connection.there, connection.back].map(|path| Use {
            path,
            bytes: HEADERS + options,
            dns: false,
        })
    };
    connections.iter().flat_map(of_one).collect()
}

/// The connections of a group by number. Each has two timers.
#[derive(Debug)]
pub(crate) struct Group {
    first: Option<Socket>,
    first_row: u32,
    count: u32,
}

/// The purpose of a connection's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The connection opens, or its application continues.
    Go,
    /// Its application stops.
    Stop,
}

impl Group {
    pub(crate) const EMPTY: Self = Self { first: None, first_row: 0, count: 0 };

    /// Sets up all connections with their timers. Passes the random stream of each to `keep`.
    pub(crate) fn set_up(
        host: &mut dyn Host,
        connections: &[Connection],
        mut keep: impl FnMut(Random),
    ) -> Self {
        let mut group = Self::EMPTY;
        let name_bytes = connections.iter().map(|connection| connection.name.len()).sum();
        host.reserve(connections.len(), name_bytes);
        for (number, connection) in connections.iter().enumerate() {
            let number = number as u32;
            let mut random = host.random(&connection.name);
            let socket = host.set_up(&Transfer {
                there: connection.there,
                back: connection.back,
                tcp: connection.tcp,
                first_opens: connection.opener == Opener::Sender,
                isns: [random.bits(), random.bits()],
                number,
            });
            let row = host.list(socket, &connection.name, connection.start);
            if group.first.is_none() {
                (group.first, group.first_row) = (Some(socket), row);
            }
            group.count += 1;
            host.wake(connection.start, Self::token(number, Timer::Go));
            if let Some(stop) = connection.stop {
                host.wake(stop, Self::token(number, Timer::Stop));
            }
            keep(random);
        }
        group
    }

    /// Returns the sending end of a connection. A group's flows have consecutive numbers.
    pub(crate) fn sender(&self, number: u32) -> Socket {
        let first = self.first.expect("a connection that has a number was set up");
        Socket { end: first.end + 2 * number, generation: first.generation }
    }

    /// Returns the row of a connection in the table `flows`.
    pub(crate) const fn row(&self, number: u32) -> u32 {
        self.first_row + number
    }

    /// Returns the number with which a timer is set.
    pub(crate) const fn token(number: u32, timer: Timer) -> u32 {
        2 * number + matches!(timer, Timer::Stop) as u32
    }

    /// Returns the connection and the purpose of a timer.
    pub(crate) const fn timer(token: u32) -> (u32, Timer) {
        (token / 2, if token.is_multiple_of(2) { Timer::Go } else { Timer::Stop })
    }
}

//! Bursts, one after the other. The next burst starts an idle time after the last byte of the
//! previous one was acknowledged.

use narrows_units::settings::{any, size, whole};
use narrows_units::{Bytes, Span, Time, keys};

use crate::connection::{Connection, Group, Timer, check, uses};
use crate::draw::MOST_BYTES;
use crate::record::{BurstRow, Records};
use crate::{Application, Draw, Environment, Host, Random, Settings, Socket, Use, View, is_moment};

keys! {
    /// The settings of a group of connections that send bursts.
    pub struct OnOff {
        /// The connections.
        connections: Vec<Connection> = Vec::new(), any();
        /// The bytes of a burst.
        burst: Draw<Bytes> = Draw::Constant(Bytes::new(1)), size(1, MOST_BYTES);
        /// The idle time.
        idle: Draw<Span> = Draw::Constant(Span::ZERO), any();
        /// Number of bursts after which a connection closes; without it, connections stay open.
        bursts: Option<u32> = None, whole(1, 1_000_000_000);
    }
}

impl OnOff {
    /// Creates connections that send this many bytes each, and close.
    pub fn once(connections: Vec<Connection>, bytes: Bytes) -> Self {
        let (burst, idle) = (Draw::Constant(bytes), Draw::Constant(Span::ZERO));
        Self { connections, burst, idle, bursts: Some(1) }
    }
}

impl Settings for OnOff {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        check(&self.connections, environment)
    }

    fn uses(&self, environment: &Environment<'_>) -> Vec<Use> {
        uses(&self.connections, environment)
    }

    fn build(self, _name: &str) -> Box<dyn Application> {
        let Self { connections, burst, idle, bursts } = self;
        let (group, senders) = (Group::EMPTY, Vec::with_capacity(connections.len()));
        Box::new(Senders { connections, burst, idle, bursts, group, senders })
    }
}

#[derive(Debug)]
struct Senders {
    /// The connections, until they are set up.
    connections: Vec<Connection>,
    burst: Draw<Bytes>,
    idle: Draw<Span>,
    bursts: Option<u32>,
    group: Group,
    senders: Vec<Sender>,
}

/// One connection's sender.
#[derive(Debug)]
struct Sender {
    random: Random,
    /// The bytes of the current burst.
    bytes: u64,
    started_at: Time,
    /// The retransmissions before this burst.
    retransmitted_before: u32,
    /// The bursts begun.
    begun: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No burst is going on.
    Idle,
    /// A burst is not yet acknowledged.
    Sending,
    /// A burst is not yet acknowledged, and it is the last.
    SendingLast,
    /// No further burst will follow.
    Finished,
}

impl Application for Senders {
    fn start(&mut self, host: &mut dyn Host) {
        let senders = &mut self.senders;
        self.group = Group::set_up(host, &std::mem::take(&mut self.connections), |random| {
            senders.push(Sender {
                random,
                bytes: 0,
                started_at: Time::ZERO,
                retransmitted_before: 0,
                begun: 0,
                state: State::Idle,
            });
        });
    }

    fn timer(&mut self, host: &mut dyn Host, token: u32) {
        let (number, timer) = Group::timer(token);
        match timer {
            Timer::Go => self.begin(host, number),
            Timer::Stop => {
                let sender = &mut self.senders[number as usize];
                sender.state = match sender.state {
                    State::Sending | State::SendingLast => State::SendingLast,
                    State::Idle | State::Finished => State::Finished,
                };
                host.close(self.group.sender(number));
            }
        }
    }

    fn delivered(&mut self, host: &mut dyn Host, socket: Socket) {
        let number = host.number(socket);
        let row = self.row(number, host.retransmissions(socket));
        let sender = &mut self.senders[number as usize];
        if sender.state == State::Sending {
            sender.state = State::Idle;
            let next = host.now() + self.idle.next(&mut sender.random, sender.begun - 1);
            // Otherwise the next burst would begin after the last time that can be represented.
            if is_moment(next) {
                host.wake(next, Group::token(number, Timer::Go));
            }
        } else {
            sender.state = State::Finished;
        }
        host.release_memory(socket);
        let end = Some(host.now());
        host.records().bursts.push(BurstRow { end, ..row });
    }

    fn add_unfinished(&self, flows: &dyn View, records: &mut Records) {
        for (number, sender) in self.senders.iter().enumerate() {
            if matches!(sender.state, State::Sending | State::SendingLast) {
                let number = number as u32;
                let retransmitted = flows.retransmissions(self.group.sender(number));
                records.bursts.push(self.row(number, retransmitted));
            }
        }
    }
}

impl Senders {
    fn begin(&mut self, host: &mut dyn Host, number: u32) {
        let socket = self.group.sender(number);
        let sender = &mut self.senders[number as usize];
        if sender.state == State::Finished {
            return;
        }
        if sender.begun == 0 {
            host.connect(socket);
        }
        let turn = sender.begun;
        sender.begun += 1;
        sender.started_at = host.now();
        sender.retransmitted_before = host.retransmissions(socket);
        sender.bytes = self.burst.next(&mut sender.random, turn);
        host.tell_delivery(socket, sender.bytes);
        host.write(socket, sender.bytes);
        if self.bursts == Some(turn + 1) {
            sender.state = State::SendingLast;
            host.close(socket);
        } else {
            sender.state = State::Sending;
        }
    }

    /// Returns the row of a connection's current burst.
    fn row(&self, number: u32, retransmitted: u32) -> BurstRow {
        let sender = &self.senders[number as usize];
        BurstRow {
            flow: self.group.row(number),
            burst: sender.begun - 1,
            start: sender.started_at,
            end: None,
            bytes: sender.bytes,
            retransmitted: retransmitted.wrapping_sub(sender.retransmitted_before),
        }
    }
}

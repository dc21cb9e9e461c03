//! Endless data: each connection sends as fast as TCP allows.

use narrows_units::keys;
use narrows_units::settings::any;

use crate::connection::{Connection, Group, Timer, check, uses};
use crate::{Application, Environment, Host, Settings, Use};

keys! {
    /// The settings of a group of connections that never run out of data.
    pub struct Bulk {
        /// The connections.
        connections: Vec<Connection> = Vec::new(), any();
    }
}

impl Settings for Bulk {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        check(&self.connections, environment)
    }

    fn uses(&self, environment: &Environment<'_>) -> Vec<Use> {
        uses(&self.connections, environment)
    }

    fn build(self, _name: &str) -> Box<dyn Application> {
        Box::new(Sender { connections: self.connections, group: Group::EMPTY })
    }
}

#[derive(Debug)]
struct Sender {
    /// The connections, until they are set up.
    connections: Vec<Connection>,
    group: Group,
}

impl Application for Sender {
    fn start(&mut self, host: &mut dyn Host) {
        self.group = Group::set_up(host, &std::mem::take(&mut self.connections), drop);
    }

    fn timer(&mut self, host: &mut dyn Host, token: u32) {
        let (number, timer) = Group::timer(token);
        let sender = self.group.sender(number);
        match timer {
            Timer::Go => {
                host.connect(sender);
                host.write_forever(sender);
            }
            Timer::Stop => {
                host.end_forever(sender);
                host.close(sender);
            }
        }
    }
}

//! Links that are too narrow for a segment: the settings of connections along such paths.

use std::sync::Arc;

use narrows_transport::tcp::Config;
use narrows_units::Time;

use super::{Flow, Flows};
use crate::network::Network;
use crate::packet::Packet;

impl Flows {
    /// Handles a router's message that a segment was too long for a link.
    pub(super) fn handle_too_big(&mut self, now: Time, packet: &Packet, network: &mut Network) {
        let way = packet.way ^ 1;
        let Flow::Tcp(connection) = &mut self.table[packet.flow() as usize] else { return };
        if connection.generation() != packet.generation {
            return;
        }
        network.learn_mtu(now, way, packet.mtu());
        let endpoint = &mut connection.ends[way as usize % 2].endpoint;
        endpoint.handle_too_big(now, packet.quoted().seq, packet.mtu());
        connection.flush(now, way, network);
    }

    /// Returns the settings of an end whose segments may be at most `most` bytes long, without
    /// options.
    pub(super) fn config_within(&mut self, config: u16, most: u16) -> Arc<Config> {
        let full = &self.configs[usize::from(config)];
        if full.mss <= most {
            return Arc::clone(full);
        }
        let limited = Config { mss: most, ..Config::clone(full) };
        if let Some(known) = self.configs.iter().find(|config| ***config == limited) {
            return Arc::clone(known);
        }
        let limited = Arc::new(limited);
        self.configs.push(Arc::clone(&limited));
        limited
    }
}

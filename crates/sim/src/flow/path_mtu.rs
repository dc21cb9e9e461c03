//! Links that are too narrow for a segment: the settings of connections along such paths.

use narrows_transport::tcp::{Config, Context};
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
        let config = connection.configs[way as usize % 2];
        let (config, tick_us) = &self.configs[usize::from(config)];
        let cx = Context::with_tick(config, *tick_us, now);
        let endpoint = &mut connection.ends[way as usize % 2].endpoint;
        endpoint.handle_too_big(&cx, packet.quoted().seq, packet.mtu());
        connection.flush(&cx, way, network);
    }

    /// Returns the settings of an end whose segments may be at most `most` bytes long, without
    /// options.
    pub(super) fn config_within(&mut self, config: u16, most: u16) -> u16 {
        let (full, tick_us) = &self.configs[usize::from(config)];
        if full.mss <= most {
            return config;
        }
        let limited = Config { mss: most, ..full.clone() };
        if let Some(known) = self.configs.iter().position(|(config, _)| *config == limited) {
            return known as u16;
        }
        let tick_us = *tick_us;
        let Ok(next) = u16::try_from(self.configs.len()) else { return config };
        self.configs.push((limited, tick_us));
        next
    }
}

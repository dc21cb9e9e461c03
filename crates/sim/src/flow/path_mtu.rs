//! Links that are too narrow for a segment, or have the queue `fq`: the settings of connections along
//! such paths.
//!
//! In Linux, TCP gives each packet the time at which it may leave, and an `fq` at the host's own link
//! keeps it until then (`SK_PACING_FQ`). Packets here have no such time. So the sender waits, and the
//! packets that Linux would hold in `fq` (about two of each connection: TCP small queues) are not in
//! the queue. They leave at the same time.

use std::sync::Arc;

use narrows_transport::tcp::Config;
use narrows_units::Time;

use super::{Flow, Flows};
use crate::network::Network;
use crate::packet::Packet;

impl Flows {
    /// Handles a router's message that a segment was too long for a link.
    pub(super) fn handle_too_big(&mut self, now: Time, packet: &Packet, network: &mut Network) {
        let direction = packet.direction ^ 1;
        let Flow::Tcp(connection) = &mut self.table[packet.flow() as usize] else { return };
        if connection.generation() != packet.generation {
            return;
        }
        network.learn_mtu(now, direction, packet.mtu());
        let endpoint = &mut connection.ends[direction as usize % 2].endpoint;
        endpoint.handle_too_big(now, packet.quoted().seq, packet.mtu());
        connection.flush(now, direction, network);
    }

    /// Returns the settings of an end whose segments may be at most `most` bytes long, without
    /// options. `has_fq`: whether its host's link has the queue `fq`, so that it paces if it can.
    pub(super) fn config_within(&mut self, config: u16, most: u16, has_fq: bool) -> Arc<Config> {
        let full = &self.configs[usize::from(config)];
        let paces = has_fq && !full.paces() && full.can_pace();
        if full.mss <= most && !paces {
            return Arc::clone(full);
        }
        let pacing = full.pacing || paces;
        let limited = Config { mss: full.mss.min(most), pacing, ..Config::clone(full) };
        if let Some(known) = self.configs.iter().find(|config| ***config == limited) {
            return Arc::clone(known);
        }
        let limited = Arc::new(limited);
        self.configs.push(Arc::clone(&limited));
        limited
    }
}

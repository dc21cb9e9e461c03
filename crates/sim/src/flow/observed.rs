//! Connections whose windows, round trips and states are sampled.

use narrows_apps::flow_states::{Observed, Seen};

use super::{Flow, Flows};

impl Observed for Flows {
    fn observe(&self, wanted: &[bool], mut report: impl FnMut(Seen<'_>)) {
        for row in self.listed() {
            let (sender, receiver) = (row.connection.first(), row.connection.second());
            if wanted[row.application as usize] && sender.is_established() && !sender.is_closed() {
                report(Seen {
                    application: row.application,
                    identity: (row.flow, row.connection.generation()),
                    name: row.name,
                    sender: sender.sample(),
                    received: receiver.bytes_received(),
                });
            }
        }
        if self.listed.len() == self.table.len() {
            return;
        }
        for (number, (flow, owners)) in self.table.iter().zip(&self.owners).enumerate() {
            let application = owners.applications[0];
            // Neighbours have no application.
            if wanted.get(application as usize) != Some(&true) {
                continue;
            }
            let (generation, sender, received) = match flow {
                Flow::Tcp(connection) if connection.dialogue.is_some() => {
                    let (client, server) = (connection.first(), connection.second());
                    if !server.is_established() || server.is_closed() {
                        continue;
                    }
                    (connection.generation(), server.sample(), client.bytes_received())
                }
                Flow::Quic(connection) => {
                    let [client, server] = &connection.ends;
                    if !server.is_open() || server.end().is_some() {
                        continue;
                    }
                    (connection.generation(), server.sample(), client.bytes_received())
                }
                _ => continue,
            };
            let identity = (number as u32, generation);
            report(Seen { application, identity, name: "", sender, received });
        }
    }
}

//! A server's end that keeps no state before the query.

use narrows_apps::{Datagram, Message, Socket, relay};
use narrows_transport::tcp::Segment;
use narrows_units::Time;

use super::{Flow, Flows, SocketEvent};
use crate::network::Network;
use crate::packet::Packet;
use crate::transport::stateless::{Answer, Outcome};

impl Flows {
    /// Handles a segment that has reached such an end.
    pub(super) fn handle_stateless(&mut self, now: Time, packet: Packet, network: &mut Network) {
        let (flow, generation) = (packet.flow(), packet.generation);
        let segment = packet.into_segment(&mut network.pool);
        let Flow::Tcp(connection) = &mut self.table[flow as usize] else { return };
        let Some(dialogue) = &mut connection.dialogue else { return };
        let query = dialogue.next_query();
        let asked = query.and_then(|(end, message)| relay::by_datagram(&message, end));
        let whole = asked.and(query).map(|(end, _)| end as u32);
        let Some(end) = &mut dialogue.stateless else { return };
        let outcome = end.handle(now, &segment, whole);
        if outcome == Outcome::Ask {
            // If the reply was lost, the same query is asked again.
            end.asked = end.asked.or(asked);
            let association = Socket { end: 2 * flow, generation }.into();
            let (socket, goes_back) = (0, false);
            self.events.extend(end.asked.map(|message| {
                SocketEvent::Datagram(Datagram { association, socket, goes_back, message })
            }));
        }
        connection.flush_stateless(now, 2 * flow + 1, network);
        if let Outcome::Adopt(first) = outcome {
            self.adopt(now, flow, first, network);
        }
    }

    /// Sends a server's reply to a query that came without a connection.
    pub(crate) fn answer_stateless(
        &mut self,
        now: Time,
        socket: Socket,
        reply: &Message,
        network: &mut Network,
    ) {
        let flow = socket.flow();
        let Some(Flow::Tcp(connection)) = self.table.get_mut(flow as usize) else { return };
        if connection.generation() != socket.generation {
            return;
        }
        let Some(dialogue) = &mut connection.dialogue else { return };
        let Some(end) = &mut dialogue.stateless else { return };
        let whole = relay::on_stream(reply);
        match end.reply(now, whole) {
            Answer::Sent(reply) => {
                dialogue.answer_query(reply);
                if let Some(spoken) = &mut self.spoken {
                    spoken.write(socket, &reply);
                }
            }
            Answer::Repeated | Answer::Dropped => {}
            Answer::Adopt(query) => {
                self.adopt(now, flow, query, network);
                return;
            }
        }
        connection.flush_stateless(now, 2 * flow + 1, network);
    }

    /// Hands a connection that a server had without state over to ordinary TCP.
    fn adopt(&mut self, now: Time, flow: u32, first: Segment, network: &mut Network) {
        let end = 2 * flow + 1;
        let application = self.owner(end);
        let listener = self.listener(application);
        // `sk_acceptq_is_full`: the segment is dropped, and the client sends it again.
        if listener.is_none_or(|listener| listener.queue.len() > listener.backlog as usize) {
            return;
        }
        let Flow::Tcp(connection) = &mut self.table[flow as usize] else { return };
        connection.adopt(now, first, 2 * flow, network);
        let socket = Socket { end, generation: connection.generation() };
        if let Some(dialogue) = &mut connection.dialogue {
            dialogue.sides[1].queued = true;
        }
        if let Some(listener) = self.listener(application) {
            listener.queue.push_back(socket);
        }
        self.events.push(SocketEvent::Arrived(application));
        self.collect_news(now, end);
    }
}

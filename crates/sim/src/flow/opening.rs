//! How flows begin and end, and how their numbers are used again.

use narrows_apps::Socket;
use narrows_transport::tcp::Seq;
use narrows_transport::tls;
use narrows_units::Time;

use super::{Flow, Flows, Owners};
use crate::agenda::Event;
use crate::network::Network;
use crate::packet::Label;
use crate::plan::NeighbourPair;
use crate::transport::connection::SetUp;
use crate::transport::stateless::Stateless;
use crate::transport::{Connection, Dialogue};

/// The properties of a new connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewConnection {
    /// The applications at its ends.
    pub(crate) applications: [u32; 2],
    /// The number by which the application at the first end knows it.
    pub(crate) number: u32,
    /// Indices into the plan's paths.
    pub(crate) there: u32,
    pub(crate) back: u32,
    /// The settings of the first end, and of the second unless it listens with its own: an index
    /// into the plan's `tcp`.
    pub(crate) config: u16,
    pub(crate) first_opens: bool,
    pub(crate) isns: [u32; 2],
    /// Whether its packets are foreground traffic.
    pub(crate) foreground: bool,
    /// Whether the applications exchange messages.
    pub(crate) dialogue: bool,
    /// TLS, if the client uses it: its settings, and the number of the sessions that it may resume.
    /// The messages are encrypted if the server uses TLS too.
    pub(crate) tls: Option<(tls::Client, u32)>,
    /// The port of the second end; `None`: the ports follow from the flow's number.
    pub(crate) port: Option<u16>,
}

impl Flows {
    /// Sets up a connection between two applications, or within one.
    pub(crate) fn add_connection(
        &mut self,
        now: Time,
        new: &NewConnection,
        network: &mut Network,
    ) -> Socket {
        let (flow, generation) = self.next_number();
        let dialogue = new.dialogue.then(|| Box::new(Dialogue::new()));
        let server = new.applications[1];
        let of_server = self.listeners.iter().find(|l| new.dialogue && l.application == server);
        let stateless = of_server.is_some_and(|listener| listener.stateless);
        let settings = of_server.map(|listener| listener.settings(new.port));
        let (of_server, of_tls) = settings.unwrap_or((new.config, None));
        let set_up = SetUp {
            configs: [(new.config, new.there), (of_server, new.back)].map(|(config, path)| {
                let longest = network.longest_segment(now, path);
                self.config_within(config, longest, network.starts_with_fq(path))
            }),
            generation,
            foreground: new.foreground,
            first_opens: new.first_opens,
            isns: new.isns,
        };
        let mut connection = Connection::new(&set_up, dialogue);
        if new.dialogue {
            for end in &mut connection.ends {
                end.endpoint.keep_open();
            }
            if let (Some((client, jar)), Some(server)) = (new.tls, of_tls) {
                let tls = self.sessions.begin_tls(new.applications, jar, client, server);
                if let Some(dialogue) = &mut connection.dialogue {
                    dialogue.tls = Some(tls);
                }
            }
            if stateless && let Some(dialogue) = &mut connection.dialogue {
                let scale = connection.ends[1].endpoint.window_scale();
                let end = Stateless::new(&set_up.configs[1], Seq(new.isns[1]), scale);
                dialogue.stateless = Some(Box::new(end));
            }
            if set_up.configs[0].fast_open {
                let host = network.paths.nodes(new.there)[0];
                let cookie = self.sessions.has_cookie(host, server);
                connection.ends[0].endpoint.use_fast_open(cookie);
            }
        }
        self.put(flow, Flow::Tcp(connection), new.owners());
        network.note_flow(flow, new.applications, (new.there, new.back), new.ports(flow));
        let socket = Socket { end: 2 * flow, generation };
        if new.foreground
            && new.tls.is_none()
            && let Some(spoken) = &mut self.spoken
        {
            spoken.begin(now, socket, new.isns);
        }
        socket
    }

    /// Sets up a flow of datagrams.
    pub(crate) fn add_datagrams(&mut self, new: &NewConnection, network: &mut Network) -> Socket {
        let (flow, generation) = self.next_number();
        self.put(flow, Flow::Udp(Label::new(generation, new.foreground)), new.owners());
        network.note_flow(flow, new.applications, (new.there, new.back), new.ports(flow));
        Socket { end: 2 * flow, generation }
    }

    /// Sets up the flow of neighbours that resolve each other's addresses, and returns its number.
    /// Applications do not see this flow.
    pub(crate) fn add_neighbours(&mut self, pair: &NeighbourPair, network: &mut Network) -> u32 {
        let (flow, generation) = self.next_number();
        let (there, back) = (pair.there as u32, pair.back as u32);
        let owners = Owners { applications: [0; 2], numbers: [0; 2], there };
        self.put(flow, Flow::Udp(Label::new(generation, false)), owners);
        network.note_flow(flow, owners.applications, (there, back), [0; 2]);
        flow
    }

    /// Returns a number for a new flow, and its generation.
    pub(super) fn next_number(&mut self) -> (u32, u8) {
        let Some(flow) = self.free.pop_front() else {
            let flow = self.table.len() as u32;
            assert!(2 * flow < Event::MAX_INDEX, "more flows at once than events can name");
            return (flow, 0);
        };
        match self.table[flow as usize] {
            Flow::Free(generation) => (flow, generation),
            Flow::Tcp(_) | Flow::Quic(_) | Flow::Udp(_) => {
                unreachable!("only free numbers are on the list")
            }
        }
    }

    pub(super) fn put(&mut self, flow: u32, state: Flow, owners: Owners) {
        if flow as usize == self.table.len() {
            self.table.push(state);
            self.owners.push(owners);
        } else {
            self.table[flow as usize] = state;
            self.owners[flow as usize] = owners;
        }
    }

    /// Frees the numbers of flows that both ends have finished with, once their applications know.
    pub(crate) fn free_ended(&mut self) {
        for flow in self.ending.drain(..) {
            let generation = match &self.table[flow as usize] {
                Flow::Tcp(connection) => {
                    let client = self.owners[flow as usize].applications[0] as usize;
                    if client >= self.received_by_ended.len() {
                        self.received_by_ended.resize(client + 1, 0);
                    }
                    self.received_by_ended[client] += connection.first().bytes_received();
                    connection.generation()
                }
                Flow::Quic(connection) => connection.generation(),
                Flow::Udp(_) | Flow::Free(_) => continue,
            };
            self.table[flow as usize] = Flow::Free(generation.wrapping_add(1));
            self.free.push_back(flow);
        }
    }
}

impl NewConnection {
    pub(super) fn owners(&self) -> Owners {
        Owners { applications: self.applications, numbers: [self.number, 0], there: self.there }
    }

    pub(super) fn ports(&self, flow: u32) -> [u16; 2] {
        match self.port {
            Some(port) => [crate::ports::socket(flow), port],
            None => crate::ports::tcp(flow).into(),
        }
    }
}

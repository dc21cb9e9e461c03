//! Servers in the world whose clients are elsewhere.

use std::net::SocketAddrV4;

use narrows_apps::Socket;
use narrows_apps::dns::PORT;
use narrows_sim::plan::{Kind, Plan, dns};

use crate::connection::{Connection, Side};
use crate::datagrams::{Link, Queries};
use crate::flows::{Flow, What};
use crate::part::Use;
use crate::split::{Arriving, Visitors};
use crate::world::World;

impl World {
    /// Opens the sockets of servers here whose clients are elsewhere.
    pub(crate) fn serve_clients_elsewhere(&mut self, plan: &Plan) {
        if !self.ends.are_split() {
            return;
        }
        for (number, application) in plan.applications.iter().enumerate() {
            let Kind::DnsClient(client) = &application.kind else { continue };
            let path = &plan.paths[client.there];
            let nodes = [path.from, path.to];
            if self.ends.accept_at(path.to) {
                self.serve_client_elsewhere(number as u32, nodes, client);
            }
        }
    }

    fn serve_client_elsewhere(
        &mut self,
        number: u32,
        nodes: [usize; 2],
        client: &dns::client::Client,
    ) {
        let owners = [number, client.server as u32];
        let of = Use { tcp: None, server: Some(owners[1]) };
        let link = Link {
            nodes,
            port: PORT,
            owners,
            of,
            mtus: [self.mtu(client.there), self.mtu(client.back)],
            queries: Some(Queries::default()),
            is_real: false,
            is_elsewhere: true,
            under_way: Default::default(),
        };
        let flow = Flow {
            generation: 0,
            owners,
            numbers: [0; 2],
            nodes,
            back: client.back,
            what: What::Datagrams(Box::new(link)),
        };
        let flow = self.flows.add(flow).flow();
        self.serve_datagrams(flow);
        let Self { flows, datagrams, places, .. } = self;
        if let Some(link) = flows.link_mut(flow) {
            datagrams.expect(places, link, flow);
        }
        let Some(tcp) = &client.tcp else { return };
        let of = Use { tcp: Some(tcp.tcp), server: Some(owners[1]) };
        let at = SocketAddrV4::new(self.places.address(nodes[1], of), tcp.port());
        let Some(&serving) = self.serving.get(&owners[1]) else { return };
        self.listen((nodes[1], at), serving, Some(owners[1]), owners[1]);
        self.visitors.push(Visitors {
            from: self.places.address(nodes[0], of),
            at,
            owners,
            nodes,
            back: client.back,
            tcp: tcp.tcp,
            tls: tcp.tls.as_ref().map(|tls| tls.handshake),
        });
    }

    /// Creates a connection that a client elsewhere has opened, and returns its end here; `None`: it
    /// is a stranger's.
    pub(crate) fn visit(&mut self, [peer, own]: [SocketAddrV4; 2]) -> Option<Socket> {
        let known = |one: &&Visitors| (one.from, one.at) == (*peer.ip(), own);
        let Visitors { owners, nodes, back, tcp, tls, .. } = *self.visitors.iter().find(known)?;
        let secure = match tls {
            None => None,
            Some(tls) => Some(Box::new(self.secure.accept_elsewhere(owners, own.port(), tls)?)),
        };
        let connection = Connection {
            addresses: Some([peer, own]),
            sides: [Side::elsewhere(), Side::with(secure)],
            has_messages: true,
            exchanges: Some(Default::default()),
            arriving: Some(Arriving::default()),
            ..Connection::new(0, tcp, own.port())
        };
        let socket = self.flows.add(Flow {
            generation: 0,
            owners,
            numbers: [0; 2],
            nodes,
            back,
            what: What::Tcp(Box::new(connection)),
        });
        Some(socket.other())
    }
}

//! The XDP program's verdicts that depend on the machine's own sockets, by `bpf_prog_run`:
//! PROTOCOL.md, "What the machine has". Needs root; prints SKIP otherwise.

use std::net::{TcpListener, TcpStream};

use crate::common::frames::*;
use crate::common::packets::{RST, Segment};
use crate::common::programs::{Programs, XDP_PASS, counted, programs};
use narrows_gateway::core::Counter;
use narrows_gateway::kernel::types::settings;

/// `SOCKET_MARK` of `bpf/payload.h`.
const SOCKET_MARK: u32 = 0x6e61_736b;

/// No process reads datagrams. The kernel refuses new connections, and answers or resets the open
/// ones.
#[test]
fn without_a_server_all_is_the_kernels() {
    let programs = programs!("without_a_server_all_is_the_kernels");
    for client in Client::kinds(&programs) {
        let mut client = client.open();
        programs.stop_server();
        let data = client.saying.data();
        assert_eq!(counted(&programs, &[Counter::ToKernelDown], || client.say(&data)), Came::Pass);
        assert!(client.flow().is_none());
        let syn = client.saying.syn();
        assert_eq!(counted(&programs, &[Counter::SynPassed], || client.say(&syn)), Came::Pass);
        programs.start_server();
        assert!(matches!(client.say(&syn), Came::Segment(_)));
    }
}

/// Linux takes no connection over for such a listener (every server in Go has one), so its own TCP
/// serves all of them.
#[test]
fn the_connections_of_a_listener_with_mptcp_are_the_kernels() {
    let programs = programs!("the_connections_of_a_listener_with_mptcp_are_the_kernels");
    // IPPROTO_MPTCP, include/uapi/linux/in.h.
    let Some(_listener) = crate::common::programs::listen(262) else {
        return eprintln!("SKIP: this kernel has no MPTCP");
    };
    for client in Client::kinds(&programs) {
        let mut client = client;
        let syn = client.saying.syn();
        assert_eq!(counted(&programs, &[Counter::SynPassed], || client.say(&syn)), Came::Pass);
    }
    drop(_listener);
    let _listener = crate::common::programs::listen(6).unwrap();
    for client in Client::kinds(&programs) {
        let mut client = client;
        let syn = client.saying.syn();
        assert!(matches!(client.say(&syn), Came::Segment(_)));
    }
}

#[test]
fn what_the_kernel_has_is_the_kernels() {
    let programs = programs!("what_the_kernel_has_is_the_kernels");
    for address in ["127.0.0.1", "::1"] {
        let Ok(listener) = TcpListener::bind((address, 0)) else {
            assert!(address == "::1", "no loopback");
            continue; // a machine without IPv6
        };
        let server = listener.local_addr().unwrap();
        let stream = TcpStream::connect(server).unwrap();
        programs.set(settings { port: server.port(), ..Programs::settings() });
        programs.add_server(server.ip(), server.is_ipv6().into());
        let mut client = Client::new(&programs, address == "::1", false);
        client.saying.server = server;
        client.saying.client = stream.local_addr().unwrap();
        for segment in
            [client.saying.ack(9, 9), client.saying.fin(9, 9), client.saying.data_at(9, 9, b"more")]
        {
            // The mark before it tells tc ingress that it need not look.
            let frame = client.frame(&segment.packet());
            let (verdict, after) =
                counted(&programs, &[Counter::KernelHasIt], || programs.xdp(&frame));
            assert_eq!((verdict, &after[..4]), (XDP_PASS, &SOCKET_MARK.to_ne_bytes()[..]));
            assert_eq!(after[4..], frame);
        }
        // A late copy of the first query makes an entry, whose state says nothing about the rest.
        let entry = Client::new(&programs, address == "::1", false);
        programs.set(Programs::settings());
        let entry = entry.asked().flow().unwrap();
        programs.set(settings { port: server.port(), ..Programs::settings() });
        let mut late = client.clone();
        programs.set_flow(&late.key(), &entry);
        for segment in [
            late.saying.ack(5000, 700),
            late.saying.fin(5000, 700),
            late.saying.data_at(5000, 700, b"more"),
            Segment { flags: RST, ..late.saying.ack(5000, 700) },
        ] {
            let came = counted(&programs, &[Counter::KernelHasIt], || late.say(&segment));
            assert_eq!(came, Came::Pass);
            assert!(late.flow().is_some());
        }
        programs.remove_flows();
        // A listener is not a connection.
        let mut other = client.clone();
        other.saying.client.set_port(server.port() ^ 1);
        let ack = other.saying.ack(9, 9);
        assert_eq!(counted(&programs, &[Counter::UnknownAck], || other.say(&ack)), Came::Drop);
    }
}

//! The tests of whole runs, in one program: it links once.

mod aqm;
mod changes;
mod common;
mod datagrams;
mod dns_arrivals;
mod dns_packets;
mod dns_quic;
mod dns_stateless;
mod dns_tls;
mod dns_transports;
mod fair_queues;
mod flood;
mod flow_states;
mod goodput;
mod marks;
mod modes;
mod one_way;
mod path_mtu;
mod runs;
mod tcp_handshake_ecn;
mod transfer;
mod voip;
mod web;
mod web_secure;

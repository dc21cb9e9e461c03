//! The tests of whole connections, in one program: it links once.

mod quic_controls;
mod tcp_accurate_ecn;
mod tcp_bad_paths;
mod tcp_bbr;
mod tcp_bbr3;
mod tcp_dctcp;
mod tcp_endpoint;
mod tcp_fast_open;
mod tcp_handshake;
mod tcp_handshake_ecn;
mod tcp_hystart;
mod tcp_laws;
mod tcp_line;
mod tcp_own;
mod tcp_pipe;
mod tcp_receiver;
mod tcp_replay;
mod tcp_script;
mod tcp_sender;
mod tcp_settings;

//! A plan's settings of QUIC, in the form of quinn-proto, and those that it does not follow.

use std::sync::Arc;
use std::time::Duration;

use narrows_apps::dns::HTTPS_PORT;
use narrows_transport::quic::{Config, Congestion, SlowStart};
use narrows_transport::tls;
use narrows_units::Span;
use narrows_units::settings::Words;
use quinn_proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    EndpointConfig, IdleTimeout, MtuDiscoveryConfig, RandomConnectionIdGenerator, TransportConfig,
    VarInt,
};

use crate::secure::{Carrier, Pair};

/// Returns the settings of a connection at one end, for a server at this port. Over HTTP/3, the other
/// end has streams beside those of its messages.
pub(super) fn transport(config: &Config, port: u16) -> Arc<TransportConfig> {
    let datagram = u64::from(config.payload);
    let window = match config.initial_window {
        Some(datagrams) => datagram * u64::from(datagrams),
        // RFC 9002, 7.2.
        None => (10 * datagram).min((2 * datagram).max(14_720)),
    };
    let congestion: Arc<dyn ControllerFactory + Send + Sync> = match config.congestion {
        Congestion::Cubic => {
            let mut cubic = CubicConfig::default();
            cubic.initial_window(window);
            Arc::new(cubic)
        }
        // The others are refused.
        Congestion::NewReno
        | Congestion::Bbr
        | Congestion::BbrV3
        | Congestion::Dctcp
        | Congestion::Prague => {
            let mut reno = NewRenoConfig::default();
            reno.initial_window(window);
            Arc::new(reno)
        }
    };
    let search = config.search_to.map(|most| {
        let mut search = MtuDiscoveryConfig::default();
        search.upper_bound(most);
        search
    });
    let idle = Duration::from_nanos(config.idle_timeout.as_ps() / 1000);
    let mut made = TransportConfig::default();
    made.congestion_controller_factory(congestion)
        .initial_mtu(config.payload)
        .mtu_discovery_config(search)
        .max_idle_timeout(IdleTimeout::try_from(idle).ok())
        .enable_segmentation_offload(false)
        .datagram_receive_buffer_size(None)
        .max_concurrent_uni_streams(VarInt::from_u32(if port == HTTPS_PORT { 3 } else { 0 }))
        // Nothing holds a message back but the congestion window.
        .stream_receive_window(WINDOW)
        .receive_window(WINDOW)
        .send_window(u64::MAX);
    Arc::new(made)
}

/// Returns the settings of the socket of one end.
pub(super) fn endpoint(config: &Config) -> Arc<EndpointConfig> {
    let id = usize::from(config.id);
    let mut made = EndpointConfig::default();
    made.cid_generator(move || Box::new(RandomConnectionIdGenerator::new(id)))
        .max_udp_payload_size(LONGEST_PAYLOAD)
        .expect("it is the longest that there is");
    Arc::new(made)
}

/// Returns the first setting of a client and its server that rustls and quinn-proto cannot follow,
/// and why. `http3`: they speak it.
pub(crate) fn refused(
    client: (tls::Client, &Config),
    server: (tls::Server, &Config),
    http3: bool,
) -> Option<String> {
    let pair = Pair::new(client.0, server.0, carrier(server.1));
    pair.err()
        .map(|why| format!("tls: {why}"))
        .or_else(|| unlike(client.1, [false, http3]))
        .or_else(|| unlike(server.1, [true, http3]))
}

/// Returns the first setting of an end that quinn-proto does not follow, and why.
fn unlike(config: &Config, [serves, http3]: [bool; 2]) -> Option<String> {
    const MS: Span = Span::from_ms(1);
    match config.congestion {
        Congestion::NewReno | Congestion::Cubic => {}
        Congestion::Bbr => {
            return Some("congestion: quinn-proto's bbr is Chromium's, which differs".into());
        }
        other @ (Congestion::BbrV3 | Congestion::Dctcp | Congestion::Prague) => {
            return Some(format!("congestion: quinn-proto has no {}", other.word()));
        }
    }
    if config.slow_start != SlowStart::Standard {
        return Some("slow_start: quinn-proto has no HyStart++".into());
    }
    if config.pacing {
        return Some("pacing: quinn-proto always paces, in bursts of its own".into());
    }
    if config.id == 0 {
        return Some("id: 0 B, but an end needs 1 B to have more than one".into());
    }
    if config.max_ack_delay != Span::from_ms(25) {
        return Some("max_ack_delay: quinn-proto has 25 ms".into());
    }
    if !config.idle_timeout.as_ps().is_multiple_of(MS.as_ps()) {
        return Some("idle_timeout: quinn-proto counts milliseconds".into());
    }
    let least = least_parameters(config, serves) + if http3 { STREAMS_BESIDE } else { 0 };
    if config.parameters != least && config.parameters < least + 2 {
        let least = least + 2;
        return Some(format!(
            "parameters: {} B, but quinn-proto needs {least} B",
            config.parameters
        ));
    }
    let every = config.ack_every;
    (every != 2).then(|| format!("ack_every: {every}, but quinn-proto has 2"))
}

/// Returns the least bytes of transport parameters (RFC 9000, 18.2; `session.rs`).
fn least_parameters(config: &Config, serves: bool) -> u16 {
    let idle = match config.idle_timeout.as_ps() / Span::from_ms(1).as_ps() {
        // RFC 9000, 16.
        0..0x40 => 2 + 1,
        0x40..0x4000 => 2 + 2,
        0x4000..0x4000_0000 => 2 + 4,
        _ => 2 + 8,
    };
    // initial_max_data, and initial_max_stream_data of one kind of streams.
    let windows = 2 * (2 + 4);
    let own_id = 2 + u16::from(config.id);
    // initial_max_streams_bidi, and original_destination_connection_id.
    let of_server = if serves { (2 + 2) + (2 + first_id(config) as u16) } else { 0 };
    idle + windows + own_id + of_server
}

/// Returns the length of the ID by which a client calls this server at first (RFC 9000, 7.2).
pub(super) fn first_id(server: &Config) -> usize {
    usize::from(server.id).max(8)
}

/// Returns how QUIC carries a server's handshake. Its first ticket makes up for what the server
/// sends beside: the plan's extras, but quinn-proto's is one more connection ID (RFC 9000, 19.15).
pub(super) fn carrier(server: &Config) -> Carrier {
    Carrier::Quic(i32::from(server.extras) - (4 + i32::from(server.id) + 16))
}

/// The largest integer of four bytes.
const WINDOW: VarInt = VarInt::from_u32((1 << 30) - 1);
const LONGEST_PAYLOAD: u16 = 65_527;

/// initial_max_streams_uni and initial_max_stream_data_uni.
const STREAMS_BESIDE: u16 = (2 + 1) + (2 + 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_quinn_does_not_follow_are_named() {
        let tls = (tls::Client::default(), tls::Server::default());
        let usual = Config::default();
        let refused = |of_client: &Config, of_server: &Config| {
            super::refused((tls.0, of_client), (tls.1, of_server), false)
        };
        assert_eq!(refused(&usual, &usual), None);
        let short = Config { parameters: 44, ..usual };
        assert_eq!(refused(&short, &short), None);
        let why = super::refused((tls.0, &short), (tls.1, &short), true).expect("it is refused");
        assert!(why.starts_with("parameters: 44 B, but quinn-proto needs "), "{why}");
        let idle_timeout = Span::from_us(1500);
        for (config, key) in [
            (Config { congestion: Congestion::Bbr, ..usual }, "congestion"),
            (Config { congestion: Congestion::Prague, ..usual }, "congestion"),
            (Config { slow_start: SlowStart::HystartPlusPlus, ..usual }, "slow_start"),
            (Config { pacing: true, ..usual }, "pacing"),
            (Config { id: 0, ..usual }, "id"),
            (Config { ack_every: 1, ..usual }, "ack_every"),
            (Config { max_ack_delay: Span::ZERO, ..usual }, "max_ack_delay"),
            (Config { idle_timeout, ..usual }, "idle_timeout"),
            (Config { parameters: 27, ..usual }, "parameters"),
        ] {
            for why in [refused(&config, &usual), refused(&usual, &config)] {
                let why = why.expect("it is refused");
                assert!(why.starts_with(&format!("{key}: ")), "{why}");
            }
        }
        let server = tls::Server { ticket: 103, ..tls.1 };
        let why = super::refused((tls.0, &usual), (server, &usual), false).expect("it is refused");
        assert_eq!(why, "tls: ticket: 103 B, but rustls needs 135 B");
        let server = tls::Server { ticket: 135, ..tls.1 };
        assert_eq!(super::refused((tls.0, &usual), (server, &usual), false), None);
    }
}

//! A plan's settings of QUIC, in the form of quinn-proto, and those that it does not follow.

use std::sync::Arc;
use std::time::Duration;

use narrows_transport::quic::{Config, Congestion};
use narrows_transport::tls;
use narrows_units::Span;
use quinn_proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    EndpointConfig, IdleTimeout, MtuDiscoveryConfig, RandomConnectionIdGenerator, TransportConfig,
    VarInt,
};

use crate::secure::{Carrier, Pair};

/// Returns the settings of a connection at one end.
pub(super) fn transport(config: &Config) -> Arc<TransportConfig> {
    let datagram = u64::from(config.payload);
    let window = match config.initial_window {
        Some(datagrams) => datagram * u64::from(datagrams),
        // RFC 9002, 7.2.
        None => (10 * datagram).min((2 * datagram).max(14_720)),
    };
    let congestion: Arc<dyn ControllerFactory + Send + Sync> = match config.congestion {
        Congestion::NewReno => {
            let mut reno = NewRenoConfig::default();
            reno.initial_window(window);
            Arc::new(reno)
        }
        Congestion::Cubic => {
            let mut cubic = CubicConfig::default();
            cubic.initial_window(window);
            Arc::new(cubic)
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
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        // Nothing holds a message back but the congestion window.
        .stream_receive_window(VarInt::MAX)
        .receive_window(VarInt::MAX)
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
/// and why.
pub(crate) fn refused(
    client: (tls::Client, &Config),
    server: (tls::Server, &Config),
) -> Option<String> {
    let pair = Pair::new(client.0, server.0, Carrier::Quic);
    pair.err()
        .map(|why| format!("tls: {why}"))
        .or_else(|| unlike(client.1, false))
        .or_else(|| unlike(server.1, true))
}

/// Returns the first setting of an end that quinn-proto does not follow, and why.
fn unlike(config: &Config, serves: bool) -> Option<String> {
    const MS: Span = Span::from_ms(1);
    let unlike = |key: &str, asked: u64, found: u64| {
        (asked != found).then(|| format!("{key}: {asked}, but quinn-proto has {found}"))
    };
    if config.id == 0 {
        return Some("id: 0 B, but an end needs 1 B to have more than one".into());
    }
    if config.max_ack_delay != Span::from_ms(25) {
        return Some("max_ack_delay: quinn-proto has 25 ms".into());
    }
    if !config.idle_timeout.as_ps().is_multiple_of(MS.as_ps()) {
        return Some("idle_timeout: quinn-proto counts milliseconds".into());
    }
    let least = least_parameters(config, serves);
    let most = least + MOST_GREASE;
    let parameters = u64::from(config.parameters);
    if !(least..=most).contains(&parameters) {
        return Some(format!(
            "parameters: {parameters} B, but quinn-proto has {least} to {most} B"
        ));
    }
    unlike("ack_every", config.ack_every.into(), 2)
        .or_else(|| unlike("undecryptable_packets", config.undecryptable_packets.into(), 0))
        .or_else(|| unlike("extras", config.extras.into(), if serves { extras(config) } else { 0 }))
}

/// Returns the bytes of transport parameters (RFC 9000, 18.2) without the value of the reserved one
/// (18.1), which has 0 to 15 bytes.
fn least_parameters(config: &Config, serves: bool) -> u64 {
    let idle = match config.idle_timeout.as_ps() / Span::from_ms(1).as_ps() {
        // RFC 9000, 16.
        0..0x40 => 2 + 1,
        0x40..0x4000 => 2 + 2,
        0x4000..0x4000_0000 => 2 + 4,
        _ => 2 + 8,
    };
    // initial_max_data, and initial_max_stream_data of three kinds of streams.
    let windows = 4 * (2 + 8);
    // initial_max_streams_bidi.
    let streams = 2 + 2;
    // active_connection_id_limit.
    let ids = 2 + 1;
    let own_id = 2 + u64::from(config.id);
    // min_ack_delay (draft-ietf-quic-ack-frequency-07).
    let ack_delay = 8 + 1 + 2;
    // grease_quic_bit (RFC 9287).
    let grease = 2 + 1;
    let reserved = 8 + 1;
    // original_destination_connection_id, which clients choose, and stateless_reset_token.
    let of_server = if serves { (2 + 20) + (2 + 16) } else { 0 };
    idle + windows + streams + ids + own_id + ack_delay + grease + reserved + of_server
}

/// Returns the bytes of the connection IDs that a server sends with its confirmation (RFC 9000,
/// 19.15). It sends four, because a client takes five.
fn extras(config: &Config) -> u64 {
    4 * (4 + u64::from(config.id) + 16)
}

const MOST_GREASE: u64 = 15;
const LONGEST_PAYLOAD: u16 = 65_527;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Mutex;
    use std::time::Instant;

    use quinn_proto::crypto::{self, Session};
    use quinn_proto::transport_parameters::TransportParameters;
    use quinn_proto::{ClientConfig, ConnectError, Endpoint};

    use super::*;

    const CLIENT: Config = Config {
        payload: 1200,
        search_to: None,
        congestion: Congestion::Cubic,
        initial_window: None,
        ack_every: 2,
        max_ack_delay: Span::from_ms(25),
        undecryptable_packets: 0,
        idle_timeout: Span::from_secs(30),
        ecn: false,
        id: 8,
        parameters: 95,
        waits: false,
        extras: 0,
    };

    /// Keeps the transport parameters of a connection, and makes none.
    #[derive(Default)]
    struct Keeps(Mutex<Vec<u8>>);

    impl crypto::ClientConfig for Keeps {
        fn start_session(
            self: Arc<Self>,
            _version: u32,
            _name: &str,
            parameters: &TransportParameters,
        ) -> Result<Box<dyn Session>, ConnectError> {
            let mut bytes = Vec::new();
            parameters.write(&mut bytes);
            *self.0.lock().expect("nobody panics") = bytes;
            Err(ConnectError::EndpointStopping)
        }
    }

    #[test]
    fn transport_parameters_have_the_expected_length() {
        for (id, seconds) in [(8, 30), (1, 10), (20, 100_000)] {
            let config = Config { id, idle_timeout: Span::from_secs(seconds), ..CLIENT };
            let least = least_parameters(&config, false) as usize;
            let mut found = Vec::new();
            for _ in 0..100 {
                let keeps = Arc::new(Keeps::default());
                let mut settings = ClientConfig::new(keeps.clone());
                settings.transport_config(transport(&config));
                let mut made = Endpoint::new(endpoint(&config), None, true, None);
                let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 853));
                assert!(made.connect(Instant::now(), settings, to, "127.0.0.1").is_err());
                found.push(keeps.0.lock().expect("nobody panics").len());
            }
            // The number of a reserved parameter is nearly always of eight bytes.
            let usual = found.iter().filter(|&&bytes| bytes >= least).count();
            assert!(usual > 90, "{least}: {found:?}");
            assert!(found.iter().all(|&bytes| bytes <= least + MOST_GREASE as usize), "{found:?}");
            assert!(found.iter().any(|&bytes| bytes < least + 3), "{least}: {found:?}");
        }
    }

    #[test]
    fn settings_that_quinn_does_not_follow_are_named() {
        assert_eq!(unlike(&CLIENT, false), None);
        let server = Config { parameters: 135, extras: 112, ..CLIENT };
        assert_eq!(unlike(&server, true), None);
        let idle_timeout = Span::from_us(1500);
        for (config, key) in [
            (Config { id: 0, ..CLIENT }, "id"),
            (Config { ack_every: 1, ..CLIENT }, "ack_every"),
            (Config { max_ack_delay: Span::ZERO, ..CLIENT }, "max_ack_delay"),
            (Config { undecryptable_packets: 4, ..CLIENT }, "undecryptable_packets"),
            (Config { idle_timeout, ..CLIENT }, "idle_timeout"),
            (Config { parameters: 60, ..CLIENT }, "parameters"),
            (Config { extras: 28, ..CLIENT }, "extras"),
        ] {
            let why = unlike(&config, false).expect("it is refused");
            assert!(why.starts_with(&format!("{key}: ")), "{why}");
        }
    }
}

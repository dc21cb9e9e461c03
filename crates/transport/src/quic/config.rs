//! Settings of a QUIC endpoint.

use alloc::format;

use narrows_units::settings::{Settings, Words, any, positive, size, span, whole};
use narrows_units::{ConfigError, Ecn, Span, settings, words};

use crate::congestion::SlowStart;
use crate::tcp;

/// The payload that every path takes (RFC 9000, 14).
pub const LEAST_PAYLOAD: u16 = 1200;

settings! {
    #[derive(Copy, Eq)]
    /// How both ends speak QUIC (RFC 9000).
    pub struct Config as "Quic" {
        /// The longest UDP payload, 1200 B to 65507 B, as if path MTU discovery had found it (RFC
        /// 9000, 14.2). Packets are not fragmented: one that the first link does not take is never
        /// sent.
        payload: u16 = LEAST_PAYLOAD, size(1200, 65_507);
        /// After the handshake, both ends search for the longest payload that the path takes, up to
        /// this size (RFC 9000, 14.3). Without it, they do not search.
        search_to: Option<u16> = None, size(1201, 65_507);
        /// Congestion control: NewReno (RFC 9002, section 7), CUBIC (RFC 9438), BBR v1 or v3, which pace,
        /// DCTCP (RFC 8257), whose packets are ECN-capable, or Prague, which does both and sends
        /// ECT(1).
        congestion: Congestion = Congestion::NewReno, any();
        /// How slow start grows, and what ends it before a loss or a mark does: `standard` (RFC 9002,
        /// 7.3.1), or `hystart++` (RFC 9406), for NewReno and CUBIC.
        slow_start: SlowStart = SlowStart::Standard, any();
        /// Paces: packets leave at 1.25 times the window in a round trip (RFC 9002, 7.7), one at a
        /// time, and not as fast as the window allows. The first ten leave at once. BBR and Prague
        /// always pace, at rates of their own.
        pacing: bool = false, any();
        /// Datagrams in the initial congestion window. By default ten, but no more than 14720 B or
        /// two datagrams, whichever is larger (RFC 9002, 7.2).
        initial_window: Option<u16> = None, whole(1, 1000);
        /// Number of packets that are acknowledged together (RFC 9000, 13.2.2).
        ack_every: u8 = 2, whole(1, 255);
        /// The longest delay of an acknowledgement (RFC 9000, 18.2).
        max_ack_delay: Span = Span::from_ms(25), span(Span::ZERO, Span::from_ms((1 << 14) - 1));
        /// The most packets of each kind that an end keeps if they arrive before their keys (RFC
        /// 9001, 5.7). This happens if they overtake another packet, or if that packet is lost. With
        /// 0, the end drops them.
        // RFC 9001 names no number. ngtcp2, which Knot DNS and kdig use, keeps four of each kind
        // (`NGTCP2_MAX_NUM_BUFFED_RX_PKTS`).
        undecryptable_packets: u8 = 4, whole(0, 255);
        /// What an end sends when a probe timeout expires without new data.
        probes: Probes = Probes::Rfc9002, any();
        /// A silent connection ends after this time (RFC 9000, 10.1).
        idle_timeout: Span = Span::from_secs(30), positive();
        /// Packets are ECN-capable, and acknowledgements count the marks (RFC 9000, 13.4).
        ecn: bool = false, any();
        /// The bytes of the connection ID that an end chooses for itself.
        id: u8 = 8, whole(0, 20);
        /// The bytes of its transport parameters (RFC 9000, 18). 60 are those of the usual limits.
        parameters: u16 = 60, whole(1, 1000);
        /// Whether a client's application may write only after the server has confirmed the
        /// handshake (RFC 9001, 4.1.2), a round trip later than possible.
        waits: bool = false, any();
        /// The bytes that a server sends with the confirmation: new connection IDs and a token (RFC
        /// 9000, 19.7 and 19.15).
        extras: u16 = 0, whole(0, 1000);
    }
}

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        if self.slow_start != SlowStart::Standard
            && !matches!(self.congestion, Congestion::NewReno | Congestion::Cubic)
        {
            let what = "is hystart++, which goes with new-reno or cubic";
            return Err(ConfigError::new("slow_start", what));
        }
        match self.search_to {
            Some(most) if most <= self.payload => {
                Err(ConfigError::new("search_to", format!("must be above {}", self.payload)))
            }
            _ => Ok(()),
        }
    }
}

impl Config {
    /// Returns whether an end paces.
    pub fn paces(&self) -> bool {
        self.pacing || tcp::Congestion::PACED.contains(&self.congestion.word())
    }

    /// Returns the ECN codepoint of an end's packets.
    pub fn ect(&self) -> Ecn {
        match self.congestion {
            Congestion::Prague => Ecn::Ect1,
            congestion if tcp::Congestion::COUNT_MARKS.contains(&congestion.word()) => Ecn::Ect0,
            _ if self.ecn => Ecn::Ect0,
            _ => Ecn::NotEct,
        }
    }
}

words! {
    /// The congestion control of an end.
    pub enum Congestion {
        /// RFC 9002, 7.
        NewReno = "new-reno",
        /// RFC 9438.
        Cubic = "cubic",
        /// draft-cardwell-iccrg-bbr-congestion-control-00 (BBR v1), as TCP has it.
        Bbr = "bbr",
        /// draft-ietf-ccwg-bbr-06 (BBR v3), as TCP has it.
        BbrV3 = "bbr-v3",
        /// RFC 8257.
        Dctcp = "dctcp",
        /// draft-briscoe-iccrg-prague-congestion-control-04, as TCP has it.
        Prague = "prague",
    }
}

impl Congestion {
    /// Returns whether it models the path, and so needs samples of delivery rates.
    pub(crate) fn models_path(self) -> bool {
        tcp::Congestion::MODELS.contains(&self.word())
    }
}

words! {
    /// What an end sends when a probe timeout expires without new data.
    pub enum Probes {
        /// The oldest data in flight, and, in the same datagram, what is in flight under other keys,
        /// as RFC 9002, 6.2.4, recommends.
        Rfc9002 = "rfc-9002",
        /// What quinn-proto 0.11 sends: no data of streams (`maybe_queue_probe`), and nothing under
        /// other keys. What was lost then leaves when the probe is acknowledged, a round trip later.
        /// The backoff also stays when keys are discarded (`discard_space`), and not as in A.11.
        Quinn = "quinn",
    }
}

//! What a link is, and how it changes.

use alloc::vec::Vec;

use narrows_qdisc::AnyConfig;
use narrows_qdisc::fifo::PfifoConfig;
use narrows_units::settings::{Setting, share};
use narrows_units::{ConfigError, Rate, Span, Time};

use crate::settings::{Framing, Jitter, LinkState, Loss, Ring};
use crate::transmitter::check_opportunities;

/// One direction of a link: a queue, then the network card's ring, then the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Transmission rate; 10 Mbit/s by default.
    pub rate: Rate,
    /// Milliseconds at which 1500 bytes may leave, never decreasing. The list starts again after its
    /// last entry, which must be above zero. `rate` should then be its mean. `None`, the default:
    /// the link can always send.
    pub opportunities_ms: Option<Vec<u32>>,
    /// Propagation delay; none by default.
    pub delay: Span,
    /// What the link layer adds to IP packets; nothing by default.
    pub framing: Framing,
    /// The queue discipline at the link's head; by default a pfifo of 1000 packets, as in Linux.
    pub queue: AnyConfig,
    /// The network card's ring buffer below the queue; by default the card takes one packet at a
    /// time.
    pub ring: Option<Ring>,
    /// Delay variation after transmission; none by default.
    pub jitter: Option<Jitter>,
    /// Losses on the wire; none by default.
    pub loss: Loss,
    /// The length of the longest IP packet in bytes; 1500 by default. Only a ring that counts bytes
    /// asks for it: it has room when this much is free, unless the queue shows its next packet.
    pub longest: u16,
    /// Whether [foreground](crate::transmitter::Packet::is_foreground) packets are exempt from `delay`, `jitter`
    /// and `loss`.
    pub exempt_foreground: bool,
    /// Whether every departure from the queue gets an event, even if the discipline needs none. The
    /// results are the same; this is for tests and measurements.
    pub scheduled: bool,
}

/// A change of a link.
///
/// It holds for packets whose transmission starts at that moment or later. A packet in transmission
/// finishes at the old rate. A new queue is empty, and the old one's packets are dropped, as
/// `tc qdisc replace` with another kind does. Only a FIFO, CoDel or PIE that stays of its kind keeps
/// them, as with `tc qdisc change` ([`narrows_qdisc::AnyQdisc::change`]). While a link is down, no
/// packet leaves its queue; the packet that is in transmission when it goes down is lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The time of the change. Of two at the same time, the later in the list counts.
    pub at: Time,
    /// The new rate. `None`: as before.
    pub rate: Option<Rate>,
    /// The new propagation delay. `None`: as before. If it falls, packets may overtake earlier ones.
    pub delay: Option<Span>,
    /// The new delay variation, with a deviation of zero for none. `None`: as before.
    pub jitter: Option<Jitter>,
    /// The new losses; a line whose losses come in bursts starts good. `None`: as before.
    pub loss: Option<Loss>,
    /// The new queue discipline. `None`: as before.
    pub queue: Option<AnyConfig>,
    /// Whether the link sends from then on. `None`: as before; at the start it does.
    pub state: Option<LinkState>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rate: const { Rate::from_bps(10_000_000).expect("not zero") },
            opportunities_ms: None,
            delay: Span::ZERO,
            framing: Framing::default(),
            queue: AnyConfig::Pfifo(PfifoConfig::default()),
            ring: None,
            jitter: None,
            loss: Loss::Each(0.0),
            longest: 1500,
            exempt_foreground: false,
            scheduled: false,
        }
    }
}

impl Config {
    /// Checks whether a link can have these settings and changes.
    ///
    /// # Errors
    ///
    /// Returns the first setting that is out of range.
    pub fn check(&self, changes: &[Change]) -> Result<(), ConfigError> {
        if let Some(ms) = &self.opportunities_ms {
            let checked = check_opportunities(ms, self.ring.is_some());
            checked.map_err(|why| ConfigError::new("opportunities_ms", why))?;
            if changes.iter().any(|change| change.rate.is_some() || change.state.is_some()) {
                return Err(ConfigError::new("changes", "follow from opportunities_ms"));
            }
        }
        self.framing.check().map_err(|why| why.inside("framing"))?;
        if let Some(ring) = &self.ring {
            ring.check().map_err(|why| why.inside("ring"))?;
        }
        check_wire(self.jitter.as_ref(), Some(&self.loss))?;
        check_queue(&self.queue, self.rate)?;
        for change in changes {
            check_wire(change.jitter.as_ref(), change.loss.as_ref())
                .and_then(|()| {
                    let queue = change.queue.as_ref();
                    queue.map_or(Ok(()), |it| check_queue(it, change.rate.unwrap_or(self.rate)))
                })
                .map_err(|why| why.inside("changes"))?;
        }
        Ok(())
    }
}

fn check_wire(jitter: Option<&Jitter>, loss: Option<&Loss>) -> Result<(), ConfigError> {
    jitter.map_or(Ok(()), |it| it.check().map_err(|why| why.inside("jitter")))?;
    loss.map_or(Ok(()), |it| Setting::check(it, "loss", &share()))
}

fn check_queue(queue: &AnyConfig, rate: Rate) -> Result<(), ConfigError> {
    if let Some(name) = queue.unbound() {
        let why = alloc::format!("nothing creates the queue \"{name}\"");
        return Err(ConfigError::new("queue", why));
    }
    queue.clone().settled(rate).check().map_err(|why| why.inside("queue"))
}

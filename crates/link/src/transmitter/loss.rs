//! Losses on the wire: of each packet by itself, or in bursts as netem computes them.
//!
//! Sources of the bursts: Gilbert (1960) and Elliott (1963); tc-netem(8), `loss gemodel`; the order
//! of the draws in Linux 6.12 (`net/sched/sch_netem.c`, `loss_gilb_ell`), as facts. Each packet
//! takes two draws. The first turns the state, and the second loses the packet with the probability
//! of the state before. Lines start good.
//!
//! Whether a packet is lost by itself is drawn when it arrives at the queue, even if the queue
//! drops it. The state of a line with bursts knows only packets that are sent, as netem's does,
//! which comes after the queue.

use alloc::boxed::Box;
use alloc::format;

use narrows_qdisc::Random;

use crate::{GilbertElliott, Loss};

/// How a link loses packets.
#[derive(Debug)]
pub(super) enum Losses {
    /// Each with this probability.
    Each(f64, Random),
    /// As a state says that all packets on the wire share.
    InTurn(Box<Line>),
}

/// A line whose losses come in bursts, or change.
#[derive(Debug)]
pub(super) struct Line {
    loss: Share,
    random: Random,
    /// Whether the next packet on the wire is lost.
    loses_next: bool,
}

#[derive(Debug)]
enum Share {
    Each(f64),
    InBursts(Bursts),
}

impl Losses {
    /// `changes`: whether the probability changes during the run.
    pub(super) fn new(loss: Loss, seed: u64, name: &str, changes: bool) -> Self {
        let random = Random::new(seed, &format!("{name}/loss"));
        match loss {
            Loss::Each(share) if !changes => Self::Each(share, random),
            loss => {
                let mut line = Line { loss: Share::of(loss), random, loses_next: false };
                line.advance();
                Self::InTurn(Box::new(line))
            }
        }
    }
}

impl Share {
    fn of(loss: Loss) -> Self {
        match loss {
            Loss::Each(share) => Self::Each(share),
            Loss::Bursts { states } => Self::InBursts(Bursts::new(&states)),
        }
    }
}

impl Line {
    /// Returns whether the next packet on the wire is lost.
    #[inline]
    pub(super) const fn loses_next(&self) -> bool {
        self.loses_next
    }

    /// Notes that this packet is on the wire.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.loses_next = match &mut self.loss {
            Share::Each(share) => self.random.uniform() < *share,
            Share::InBursts(bursts) => bursts.loses(self.random.bits(), self.random.bits()),
        };
    }

    /// Lets the next packet on the wire be the first that is lost in this way.
    pub(super) fn change(&mut self, loss: Loss) {
        self.loss = Share::of(loss);
        self.advance();
    }
}

/// The states of a line, without the source of its draws.
#[derive(Debug)]
struct Bursts {
    /// The probabilities as fractions of 2^32 - 1, as tc tells them to netem.
    turns_bad: u32,
    turns_good: u32,
    lost_when_bad: u32,
    lost_when_good: u32,
    bad: bool,
}

impl Bursts {
    fn new(plan: &GilbertElliott) -> Self {
        let fraction = |share: f64| libm::rint(share * f64::from(u32::MAX)) as u32;
        Self {
            turns_bad: fraction(plan.p),
            turns_good: fraction(plan.r.unwrap_or(1.0 - plan.p)),
            lost_when_bad: fraction(plan.loss_bad),
            lost_when_good: fraction(plan.loss_good),
            bad: false,
        }
    }

    /// Returns whether a packet is lost, given its two draws.
    fn loses(&mut self, turn: u32, loss: u32) -> bool {
        if self.bad {
            self.bad = turn >= self.turns_good;
            // netem compares with the complement of this probability.
            loss > u32::MAX - self.lost_when_bad
        } else {
            self.bad = turn < self.turns_bad;
            loss < self.lost_when_good
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const SIMPLE: GilbertElliott =
        GilbertElliott { p: 0.01, r: Some(0.25), loss_bad: 1.0, loss_good: 0.0 };

    fn outcomes(plan: GilbertElliott, packets: usize) -> Vec<bool> {
        let loss = Loss::Bursts { states: plan };
        let Losses::InTurn(mut line) = Losses::new(loss, 1, "link", false) else {
            panic!("it has states")
        };
        let outcome = |_| {
            let lost = line.loses_next();
            line.advance();
            lost
        };
        (0..packets).map(outcome).collect()
    }

    /// Returns the share of lost packets, and the mean length of their runs.
    fn share_and_run(lost: &[bool]) -> (f64, f64) {
        let count = lost.iter().filter(|&&lost| lost).count() as f64;
        let runs = lost.chunk_by(|one, other| one == other).filter(|run| run[0]).count();
        (count / lost.len() as f64, count / runs as f64)
    }

    #[test]
    fn the_first_draw_turns_the_state_for_the_next_packet() {
        let mut line = Bursts::new(&SIMPLE);
        let certain = u32::MAX;
        assert!(!line.loses(0, 0), "the packet that meets the turn is sent in the good state");
        assert!(line.loses(certain, certain));
        assert!(line.loses(0, certain), "the line turns good behind this packet");
        assert!(!line.loses(certain, 0));
        assert!(!line.bad);
    }

    #[test]
    fn losses_and_bursts_have_their_means() {
        // The share of bad states is p / (p + r). Bursts without losses in good states last 1 / r.
        let packets = 2_000_000;
        let (share, run) = share_and_run(&outcomes(SIMPLE, packets));
        // Some 77,000 losses in 19,000 bursts: their standard errors are 0.95 % and 0.63 %.
        assert!((share / (0.01 / 0.26) - 1.0).abs() < 0.04, "{share}");
        assert!((run / 4.0 - 1.0).abs() < 0.025, "{run}");
        let all = GilbertElliott { p: 0.02, r: Some(0.1), loss_bad: 0.5, loss_good: 0.01 };
        let (share, _) = share_and_run(&outcomes(all, packets));
        let mean = (0.02 * 0.5 + 0.1 * 0.01) / 0.12;
        assert!((share / mean - 1.0).abs() < 0.02, "{share}, {mean}");
    }

    #[test]
    fn without_r_each_packet_is_lost_by_itself() {
        // tc-netem(8): Bernoulli's model. The next state does not depend on this one.
        let plan = GilbertElliott { p: 0.2, r: None, ..SIMPLE };
        let (share, run) = share_and_run(&outcomes(plan, 200_000));
        assert!((share - 0.2).abs() < 0.005, "{share}");
        assert!((run - 1.25).abs() < 0.01, "{run}");
    }
}

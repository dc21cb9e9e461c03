//! A reduction of the window that may turn out to be needless, and what shows it (RFC 3522, RFC
//! 3708).

use core::num::NonZeroU32;

use crate::tcp::Seq;

/// What the sender remembers to find that a reduction was needless, and to take it back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// The reduction that may be taken back.
    pub episode: Option<Episode>,
    /// The slow-start threshold to return to; `None` if another reduction was under way already, or
    /// if there was a sign of congestion besides loss.
    pub ssthresh: Option<NonZeroU32>,
    /// The timestamp of the first retransmission (RFC 3522, `RetransmitTS`).
    pub first_stamp: Option<NonZeroU32>,
}

/// One reduction, with the retransmissions that belong to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Episode {
    /// `snd_una` when it began.
    pub start: Seq,
    /// The retransmissions that no D-SACK has shown to be needless; `None` before the first one.
    pub unexplained: Option<u32>,
}

impl Undo {
    /// Makes the reduction final.
    pub(super) fn rule_out(&mut self) {
        self.episode = None;
    }

    /// Counts a retransmission whose timestamp is `stamp`.
    pub(super) fn count_retransmission(&mut self, stamp: u32) {
        self.first_stamp = self.first_stamp.or(NonZeroU32::new(stamp));
        if let Some(episode) = &mut self.episode {
            episode.unexplained = Some(episode.unexplained.unwrap_or(0) + 1);
        }
    }

    /// Counts `duplicates` that a D-SACK reports. They end at `end` (RFC 3708).
    pub(super) fn count_duplicates(&mut self, duplicates: u32, end: Seq) {
        if let Some(Episode { start, unexplained: Some(unexplained) }) = &mut self.episode
            && end.after(*start)
        {
            *unexplained = unexplained.saturating_sub(duplicates);
        }
    }

    /// Returns whether every retransmission is known to have been needless.
    pub(super) fn is_explained(&self) -> bool {
        self.episode.is_some_and(|episode| episode.unexplained == Some(0))
    }
}

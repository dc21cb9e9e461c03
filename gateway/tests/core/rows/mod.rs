//! Each row of the tables in PROTOCOL.md as one test with its name.

mod acknowledgements;
mod adoption;
mod at_once;
mod cache;
mod data_on_a_query;
mod data_on_a_reply;
mod first_data;
mod later;
mod packets;
mod pmtu;
mod probes;
mod replies;
mod rst;
mod syn;
mod time;
mod truncation;
mod unknown;

use std::time::Duration;

use crate::common::conversation::{Conversation, Said, settings};
use crate::common::packets::{
    ACK, Datagram, FIN, PSH, RST, SYN, Segment, fragments, prefixed, query, reply, with_checksums,
};
use narrows_gateway::core::{
    Adoption, Beside, Counter, Now, Reason, ReplyVerdict, Settings, State, Verdict,
};

const DROP: Said = Said::Nothing(Verdict::Drop);
const PASS: Said = Said::Nothing(Verdict::Pass);

fn hand_off(reason: Reason) -> Said {
    Said::Nothing(Verdict::HandOff(reason))
}

/// Checks that the core sends nothing and counts `counter` once, and that the entry does not
/// change.
#[track_caller]
fn dropped(conversation: &mut Conversation, segment: &Segment, counter: Counter) {
    let (before, entry) = (conversation.count(counter), conversation.flow());
    assert_eq!(conversation.say(segment), DROP);
    assert_eq!(conversation.count(counter), before + 1, "{}", counter.name());
    assert_eq!(conversation.flow(), entry);
}

#[track_caller]
fn segment(said: Said) -> Segment {
    match said {
        Said::Segment(segment) => segment,
        other => panic!("not a segment: {other:?}"),
    }
}

#[track_caller]
fn state(conversation: &Conversation) -> Option<State> {
    conversation.flow().map(|flow| flow.state)
}

/// How long a connection may be silent.
fn idle() -> Duration {
    Duration::from_millis(settings().idle_ms.into())
}

fn at_once() -> Settings {
    Settings { at_once: true, ..settings() }
}

fn close_fin() -> Settings {
    Settings { close_fin: true, ..settings() }
}

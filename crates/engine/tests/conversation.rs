//! The conversation between a program and narrows.

use std::io::Cursor;

use narrows_engine::{build, converse, version};
use narrows_sim::plan::Plan;

/// The plan of a network without traffic, for a second.
const PLAN: &str = concat!(
    r#"{"seed":1,"end":1000000000000,"end_when_done":false,"event_limit":1000,"nodes":["a","b"],"#,
    r#""links":[],"tcp":[],"paths":[],"applications":[],"queue_monitors":[],"link_monitors":[],"#,
    r#""captures":[],"changes":[]}"#
);

fn talk(said: &str, change: impl FnOnce(&mut Plan) -> Result<(), String>) -> (bool, String) {
    let mut heard = Vec::new();
    let went_well = converse(Cursor::new(said), &mut heard, change).is_ok();
    (went_well, String::from_utf8_lossy(&heard).into_owned())
}

#[test]
fn a_plan_is_run_to_its_end_and_leaves_tables() {
    let said = format!("{PLAN}\n{{\"advance\":1000}}\n\"tables\"\n");
    let (went_well, heard) = talk(&said, |_| Ok(()));
    assert!(went_well);
    let mut lines = heard.lines();
    assert_eq!(lines.next(), Some(&*format!(r#"{{"ok":"{}"}}"#, version())));
    let state = lines.next().expect("it says how far it is");
    assert!(state.starts_with(r#"{"now_s":"#), "{state}");
    assert!(state.ends_with(r#""stopped":"end"}"#), "{state}");
    let tables = lines.next().expect("it says which tables there are");
    assert!(tables.starts_with(r#"{"tables":[{"name":"#), "{tables}");
}

#[test]
fn what_is_wrong_is_said_and_not_run() {
    let (_, heard) = talk(PLAN, |_| Err("red: no such part".into()));
    assert_eq!(heard, "{\"error\":\"red: no such part\"}\n");
    let (_, heard) = talk("{}\n", |_| Ok(()));
    assert!(heard.starts_with("{\"error\":\"standard input: no plan: "), "{heard}");
    let (went_well, _) = talk(&format!("{PLAN}\n\"dance\"\n"), |_| Ok(()));
    assert!(!went_well);
}

#[test]
fn it_stops_where_it_stands() {
    let (_, heard) = talk(&format!("{PLAN}\n\"interrupt\"\n"), |_| Ok(()));
    assert!(heard.ends_with("\"stopped\":\"interrupted\"}\n"), "{heard}");
}

#[test]
fn the_version_has_the_build_in_twelve_digits() {
    let build = build();
    assert_eq!(version(), format!("{} ({build})", env!("CARGO_PKG_VERSION")));
    assert_eq!(build.len(), 12);
    assert!(build.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')), "{build}");
}

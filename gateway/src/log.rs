//! Logs: one JSON object per line on stderr, with the paper's levels 0 to 3.

use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something works in an unexpected way, or not for everybody.
    Warning,
    /// What happens to the gateway: it started, read its settings again, changed keys.
    Info,
    /// Details that help to find a fault.
    Debug,
}

impl Level {
    /// Returns the lowest `loglevel` that writes such lines, and how they are marked.
    fn parts(self) -> (u8, &'static str) {
        match self {
            Self::Error => (1, "error"),
            Self::Warning => (1, "warning"),
            Self::Info => (2, "info"),
            Self::Debug => (3, "debug"),
        }
    }
}

static LOGLEVEL: AtomicU8 = AtomicU8::new(1);

/// Sets the level up to which lines are written (0: none).
pub fn set_level(loglevel: u8) {
    LOGLEVEL.store(loglevel, Ordering::Relaxed);
}

/// Writes a line: what happened, and its details as an object (`serde_json::json!({..})`).
pub fn log(level: Level, event: &str, fields: Value) {
    if level.parts().0 <= LOGLEVEL.load(Ordering::Relaxed) {
        let line = line(SystemTime::now(), level, event, fields);
        // If stderr is gone, there is nobody to tell.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}

fn line(now: SystemTime, level: Level, event: &str, fields: Value) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut all = Map::new();
    all.insert("time".into(), (since.as_millis() as f64 / 1000.0).into());
    all.insert("level".into(), level.parts().1.into());
    all.insert("event".into(), event.into());
    if let Value::Object(fields) = fields {
        all.extend(fields);
    }
    Value::Object(all).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_is_one_json_object() {
        let at = UNIX_EPOCH + Duration::from_millis(1_500);
        let text = line(at, Level::Info, "started", serde_json::json!({ "mode": "native\n" }));
        assert!(!text.contains('\n'));
        let back: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(back["time"], 1.5);
        assert_eq!(
            (&back["level"], &back["event"], &back["mode"]),
            (&"info".into(), &"started".into(), &"native\n".into())
        );
    }
}

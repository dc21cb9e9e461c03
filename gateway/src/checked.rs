//! The result of a real connection to a server address, for `status` and the metrics. `run` makes
//! one from time to time.

use std::net::SocketAddr;

use serde_json::{Value, json};

/// The last check of one server address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The server address.
    pub server: SocketAddr,
    /// When, in seconds since 1970.
    pub at: u64,
    /// What failed first, and why; `None`: nothing failed.
    pub failed: Option<String>,
}

impl Checked {
    /// The result of a finished check. Words that would take more than 800 bytes as JSON are cut.
    pub fn new(server: SocketAddr, at: u64, failed: Option<String>) -> Self {
        Self { server, at, failed: failed.map(|words| cut(&words)) }
    }

    /// Returns the result as a JSON object.
    pub fn object(&self) -> Value {
        json!({ "server": self.server, "at": self.at, "failed": self.failed })
    }

    /// Reads a list of results from JSON, and leaves out invalid elements.
    pub fn list(value: &Value) -> Vec<Self> {
        let one = |value: &Value| {
            let failed = match &value["failed"] {
                Value::Null => None,
                words => Some(words.as_str()?.to_owned()),
            };
            Some(Self {
                server: value["server"].as_str()?.parse().ok()?,
                at: value["at"].as_u64()?,
                failed,
            })
        };
        value.as_array().into_iter().flatten().filter_map(one).collect()
    }
}

/// Returns as many characters as fit into [`WORDS_MAX`] bytes of JSON; one character may take six.
fn cut(words: &str) -> String {
    let mut room = WORDS_MAX;
    let fits = |character: &char| {
        let quoted = Value::from(character.to_string()).to_string();
        let left = room.checked_sub(quoted.len() - 2);
        room = left.unwrap_or(0);
        left.is_some()
    };
    words.chars().take_while(fits).collect()
}

/// The most bytes of the words as JSON, without quotes.
const WORDS_MAX: usize = 800;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_to_the_bytes_that_they_take_as_json() {
        let server = "192.0.2.53:53".parse().expect("an address");
        // RFC 8259 (7): a control character takes up to six bytes, a quote two, and others as many
        // as in UTF-8.
        for (word, fit) in
            [("\u{1}", 133), ("\"", 400), ("\n", 400), ("a", 800), ("\u{1f600}", 200)]
        {
            let words = Checked::new(server, 0, Some(word.repeat(1000))).failed;
            assert_eq!(words, Some(word.repeat(fit)));
        }
        let short = Checked::new(server, 0, Some("no answer".into()));
        assert_eq!(short.failed.as_deref(), Some("no answer"));
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let server = "[2001:db8::53]:53".parse().expect("an address");
        let list = [
            Checked::new(server, 1_700_000_000, None),
            Checked::new(
                "192.0.2.53:53".parse().expect("an address"),
                7,
                Some("a \"word\"".into()),
            ),
        ];
        let written = Value::from(list.iter().map(Checked::object).collect::<Vec<_>>());
        assert_eq!(Checked::list(&written), list);
        assert_eq!(Checked::list(&json!([{ "server": "nowhere", "at": 1 }, 7])), []);
        assert_eq!(Checked::list(&Value::Null), []);
    }
}

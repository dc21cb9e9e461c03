//! What is pinned beside the maps: who attached the programs and how, and the machine's own secret.

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};
use serde_json::{Value, json};

use super::links::XdpMode;
use super::pins::Pins;
use super::{KernelError, layout};
use crate::checked::Checked;
use crate::config::Config;
use crate::config::table::{KEYS, Raw};
use crate::keys::{Secret, unix_s};

/// What is pinned beside the maps for people and later versions: who attached the programs, and
/// how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The version that last attached them or took them over.
    pub version: String,
    /// `layout::hash` of that version.
    pub layout: u64,
    /// Its process.
    pub pid: u32,
    /// When it started, in seconds since 1970.
    pub started_at: u64,
    /// How XDP runs.
    pub mode: String,
    /// All settings at that time, by name.
    pub settings: Value,
}

impl About {
    pub(super) fn of(config: &Config, mode: XdpMode) -> Self {
        let settings = KEYS.iter().map(|key| {
            // The table prints TOML values that are valid JSON, too.
            let shown = key.show(config);
            (key.name.to_owned(), serde_json::from_str(&shown).unwrap_or(Value::String(shown)))
        });
        Self {
            version: crate::VERSION.into(),
            layout: layout::hash(),
            pid: std::process::id(),
            started_at: unix_s(),
            mode: mode.name().into(),
            settings: settings.collect(),
        }
    }

    /// Returns the settings as a configuration. What this version does not understand has its
    /// default.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        for key in KEYS {
            if let Some(value) = self.settings.get(key.name) {
                let _ = key.set(&mut config, &raw(value));
            }
        }
        config
    }

    /// Reads it; `None` if it is missing or damaged.
    pub fn read(pins: &Pins) -> Option<Self> {
        let map = MapHandle::from_pinned_path(pins.path("about")).ok()?;
        let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        let text = bytes.split(|&byte| byte == 0).next()?;
        let about: Value = serde_json::from_slice(text).ok()?;
        Some(Self {
            version: about["version"].as_str()?.into(),
            layout: u64::from_str_radix(about["layout"].as_str()?, 16).ok()?,
            pid: about["pid"].as_u64()?.try_into().ok()?,
            started_at: about["started_at"].as_u64()?,
            mode: about["mode"].as_str()?.into(),
            settings: about["settings"].clone(),
        })
    }

    pub(super) fn write(&self, pins: &Pins) -> Result<(), KernelError> {
        let text = json!({
            "version": self.version, "layout": format!("{:x}", self.layout), "pid": self.pid,
            "started_at": self.started_at, "mode": self.mode, "settings": self.settings,
        });
        let mut bytes = text.to_string().into_bytes();
        bytes.resize(ABOUT_SIZE, 0);
        keep(pins, "about", &bytes)
    }
}

/// Returns a stored value as a file has it.
fn raw(value: &Value) -> Raw {
    match value {
        Value::String(text) => Raw::Text(text.clone()),
        Value::Bool(truth) => Raw::Truth(*truth),
        Value::Array(list) => Raw::List(list.iter().map(raw).collect()),
        Value::Number(number) => number.as_i64().map_or(Raw::Other("a number"), Raw::Whole),
        Value::Null | Value::Object(_) => Raw::Other("nothing"),
    }
}

/// Returns the results of the checks; empty if none are stored or they are damaged.
pub(super) fn read_checks(pins: &Pins) -> Vec<Checked> {
    let read = || {
        let map = MapHandle::from_pinned_path(pins.path("checks")).ok()?;
        let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        let text = bytes.split(|&byte| byte == 0).next()?;
        serde_json::from_slice::<Value>(text).ok()
    };
    read().map(|value| Checked::list(&value)).unwrap_or_default()
}

pub(super) fn write_checks(pins: &Pins, checks: &[Checked]) -> Result<(), KernelError> {
    let list: Vec<Value> = checks.iter().map(Checked::object).collect();
    let mut bytes = Value::from(list).to_string().into_bytes();
    bytes.resize(CHECKS_SIZE, 0);
    keep(pins, "checks", &bytes)
}

/// Returns the machine's own secret: the stored one, or a new one.
pub(super) fn own_secret(pins: &Pins) -> Result<Secret, KernelError> {
    let kept = MapHandle::from_pinned_path(pins.path("secret"))
        .ok()
        .and_then(|map| map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()?)
        .and_then(|bytes| Some(Secret::from_bytes(*bytes.first_chunk::<16>()?)));
    if let Some(secret) = kept {
        return Ok(secret);
    }
    let secret =
        Secret::random().map_err(|error| KernelError::refused("making a secret", error))?;
    keep(pins, "secret", secret.as_bytes())?;
    Ok(secret)
}

/// Stores bytes beside the pinned maps, in a map of one element.
fn keep(pins: &Pins, name: &str, bytes: &[u8]) -> Result<(), KernelError> {
    let refused = |error: libbpf_rs::Error| KernelError::refused(format!("pinning {name}"), error);
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let present =
        MapHandle::from_pinned_path(pins.path(name)).ok().filter(|map| map.value_size() == size);
    let map = match present {
        Some(map) => map,
        None => {
            let mut map = MapHandle::create(MapType::Array, Some(name), 4, size, 1, &options)
                .map_err(refused)?;
            pins.remove(name);
            map.pin(pins.path(name)).map_err(refused)?;
            map
        }
    };
    map.update(&0u32.to_ne_bytes(), bytes, MapFlags::ANY).map_err(refused)
}

/// Room for [`About`] in bytes, far more than its text needs.
const ABOUT_SIZE: usize = 8192;

/// Room in bytes for one [`Checked`] per server address.
const CHECKS_SIZE: usize = 16_384;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::config::SERVERS_MAX;

    #[test]
    fn the_configuration_comes_back() {
        let path = |text: &str| Some(std::path::PathBuf::from(text));
        let config = Config {
            interfaces: vec!["eth0".into(), "eth1".into()],
            servers: vec!["192.0.2.53".parse().expect("an address")],
            active: crate::config::Active::of(1_250),
            secret: path("/etc/secret"),
            metrics: Some("127.0.0.1:9053".parse().expect("an address")),
            idle: narrows_units::Span::from_ms(1_500),
            ..Config::of(crate::config::Preset::Hayes2010)
        };
        assert_eq!(About::of(&config, XdpMode::Native).config(), config);
        assert_eq!(About::of(&Config::default(), XdpMode::Native).config(), Config::default());
    }

    #[test]
    fn there_is_room_for_what_is_stored_about_a_gateway() {
        let config = Config {
            servers: vec![
                "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff".parse().expect("an address");
                16
            ],
            ..Config::default()
        };
        assert!(About::of(&config, XdpMode::Generic).settings.to_string().len() < ABOUT_SIZE / 2);
    }

    #[test]
    fn there_is_room_for_the_results_of_the_checks() {
        let server = SocketAddr::new(
            "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff".parse().expect("an address"),
            53_535,
        );
        // The characters that take the most bytes in JSON, for each byte of text, and as text.
        for word in ["\u{1}", "\n", "\u{1f600}"] {
            let longest = Checked::new(server, u64::MAX, Some(word.repeat(10_000)));
            let length = longest.object().to_string().len();
            assert!((length + 1) * SERVERS_MAX + 2 < CHECKS_SIZE, "{length}");
        }
    }
}

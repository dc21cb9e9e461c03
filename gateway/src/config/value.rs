//! Kinds of values: how values from a file or a flag are read, and how they are shown as TOML.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use narrows_units::{Span, parse_bytes, parse_span};

use super::Active;

/// A value from a file or a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// The text of a flag, which may mean any kind.
    Flag(String),
    /// A string from the file.
    Text(String),
    /// A whole number from the file.
    Whole(i64),
    /// A truth value from the file.
    Truth(bool),
    /// An array from the file, or a flag that was given several times.
    List(Vec<Raw>),
    /// A kind that no key takes, by its name.
    Other(&'static str),
}

/// What is wrong with a value, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

fn wrong(what: impl Into<String>, hint: impl Into<String>) -> Wrong {
    Wrong { what: what.into(), hint: hint.into() }
}

fn kind(raw: &Raw) -> &'static str {
    match raw {
        Raw::Flag(_) | Raw::Text(_) => "a string",
        Raw::Whole(_) => "a whole number",
        Raw::Truth(_) => "true or false",
        Raw::List(_) => "a list",
        Raw::Other(name) => name,
    }
}

/// A kind of values: `read` takes them from a file or a flag, `show` writes them as TOML.
pub(super) struct Kind<R, S> {
    read: R,
    show: S,
}

impl<R, S> Kind<R, S> {
    pub(super) fn read<T>(&self, raw: &Raw) -> Result<T, Wrong>
    where
        R: Fn(&Raw) -> Result<T, Wrong>,
    {
        (self.read)(raw)
    }

    pub(super) fn show<T: ?Sized>(&self, value: &T) -> String
    where
        S: Fn(&T) -> String,
    {
        (self.show)(value)
    }

    /// The same kind, except for the values that `refuse` refuses.
    pub(super) fn but<T>(
        self,
        refuse: fn(&T) -> Option<Wrong>,
    ) -> Kind<impl Fn(&Raw) -> Result<T, Wrong>, S>
    where
        R: Fn(&Raw) -> Result<T, Wrong>,
    {
        let read = self.read;
        Kind {
            read: move |raw: &Raw| {
                let value = read(raw)?;
                refuse(&value).map_or(Ok(value), Err)
            },
            show: self.show,
        }
    }
}

/// What [`Kind`] reads and shows, for the constructors below.
macro_rules! kind {
    ($type:ty) => {
        Kind<impl Fn(&Raw) -> Result<$type, Wrong>, impl Fn(&$type) -> String>
    };
}

/// True or false.
pub(super) fn truth() -> kind!(bool) {
    Kind { read: read_truth, show: |value: &bool| value.to_string() }
}

/// A whole number in this range.
pub(super) fn whole<N: TryFrom<i64> + Display>(least: i64, most: i64) -> kind!(N) {
    Kind { read: move |raw: &Raw| read_whole(raw, least, most), show: N::to_string }
}

/// A span in this range.
pub(super) fn span(least: Span, most: Span) -> kind!(Span) {
    Kind {
        read: move |raw: &Raw| read_span(raw, least, most),
        show: |span: &Span| show_span(*span),
    }
}

/// A number of bytes in this range.
pub(super) fn bytes<N: TryFrom<u64> + Copy + Into<u64>>(least: u64, most: u64) -> kind!(N) {
    Kind {
        read: move |raw: &Raw| {
            let value = read_bytes(raw, least, most)?;
            N::try_from(value).map_err(|_| wrong("out of range", "fewer bytes"))
        },
        show: |value: &N| show_bytes((*value).into()),
    }
}

/// One of these words.
pub(super) fn one_of<T: Copy + PartialEq>(names: &'static [(&'static str, T)]) -> kind!(T) {
    let read =
        |raw: &Raw| {
            let value = text(raw)?;
            let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            names.iter().find(|(name, _)| *name == value).map(|(_, value)| *value).ok_or_else(
                || wrong(format!("is {value:?}"), format!("one of {}", known.join(", "))),
            )
        };
    Kind { read, show: |value: &T| quoted(word(names, value)) }
}

/// Returns the word for a value.
pub(super) fn word<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, one)| one == value).map_or("", |(name, _)| name)
}

/// A truth value, or a share in percent with at most two decimals.
pub(super) fn share() -> kind!(Active) {
    Kind {
        read: read_share,
        show: |value: &Active| match *value {
            Active::ALL => "true".into(),
            Active::NONE => "false".into(),
            share => quoted(&format!("{} %", share.percent())),
        },
    }
}

/// A string, or several; an empty one stands for none.
pub(super) fn texts() -> kind!(Vec<String>) {
    Kind {
        read: |raw: &Raw| match raw {
            Raw::List(list) => list.iter().map(text).collect(),
            one => text(one).map(|text| if text.is_empty() { vec![] } else { vec![text] }),
        },
        show: |value: &Vec<String>| match &value[..] {
            [] => quoted(""),
            [one] => quoted(one),
            several => show_list(several),
        },
    }
}

/// IP addresses.
pub(super) fn addresses() -> kind!(Vec<IpAddr>) {
    Kind { read: read_addresses, show: |value: &Vec<IpAddr>| show_list(value) }
}

/// Addresses with ports.
pub(super) fn sockets() -> kind!(Vec<SocketAddr>) {
    Kind { read: read_sockets, show: |value: &Vec<SocketAddr>| show_list(value) }
}

/// A file; an empty string stands for none.
pub(super) fn file() -> kind!(Option<PathBuf>) {
    Kind {
        read: |raw: &Raw| {
            text(raw).map(|text| if text.is_empty() { None } else { Some(PathBuf::from(text)) })
        },
        show: |value: &Option<PathBuf>| {
            quoted(&value.as_deref().map(|path| path.display().to_string()).unwrap_or_default())
        },
    }
}

/// An absolute path.
pub(super) fn directory() -> kind!(PathBuf) {
    Kind {
        read: |raw: &Raw| {
            let value = text(raw)?;
            if !value.starts_with('/') {
                let what = format!("{value:?} is not an absolute path");
                return Err(wrong(what, "such as /sys/fs/bpf"));
            }
            Ok(PathBuf::from(value))
        },
        show: |value: &PathBuf| quoted(&value.display().to_string()),
    }
}

/// A loopback address and a port; an empty string stands for none.
pub(super) fn loopback() -> kind!(Option<SocketAddr>) {
    Kind {
        read: |raw: &Raw| {
            let value = text(raw)?;
            if value.is_empty() {
                return Ok(None);
            }
            let address: SocketAddr = value.parse().map_err(|_| {
                wrong(format!("{value:?} is not an address and port"), "such as 127.0.0.1:9053")
            })?;
            if !address.ip().is_loopback() {
                return Err(wrong(
                    format!("{} is not a loopback address", address.ip()),
                    "127.0.0.1 or [::1], behind a proxy if others read it",
                ));
            }
            Ok(Some(address))
        },
        show: |value: &Option<SocketAddr>| {
            quoted(&value.map(|address| address.to_string()).unwrap_or_default())
        },
    }
}

/// RFC 1035, 4.2.1.
pub(super) fn too_short_for_udp(bytes: &u16) -> Option<Wrong> {
    let what = "below the 512 B that every client takes (RFC 1035, 4.2.1)";
    (1..512).contains(bytes).then(|| wrong(what, "0 for none, or 512 B and more"))
}

pub(super) fn below_a_second(span: &Span) -> Option<Wrong> {
    let below = *span < Span::from_secs(1) && *span != Span::ZERO;
    below.then(|| wrong("shorter than a second", "such as \"5 min\", or \"0 s\""))
}

pub(super) fn no_power_of_two(bytes: &u32) -> Option<Wrong> {
    let next = u64::from(*bytes).next_power_of_two();
    let hint = || format!("such as {} MiB", (next >> 20).max(1));
    (!bytes.is_power_of_two()).then(|| wrong("not a power of two", hint()))
}

fn text(raw: &Raw) -> Result<String, Wrong> {
    match raw {
        Raw::Flag(text) | Raw::Text(text) => Ok(text.clone()),
        other => Err(wrong(format!("is {}, and takes a string", kind(other)), "put it in quotes")),
    }
}

fn read_truth(raw: &Raw) -> Result<bool, Wrong> {
    match raw {
        Raw::Truth(value) => Ok(*value),
        Raw::Flag(text) if text == "true" => Ok(true),
        Raw::Flag(text) if text == "false" => Ok(false),
        Raw::Flag(text) => Err(wrong(format!("is {text:?}"), "true or false")),
        other => Err(wrong(format!("is {}", kind(other)), "true or false, without quotes")),
    }
}

fn read_share(raw: &Raw) -> Result<Active, Wrong> {
    let share = match raw {
        Raw::Flag(text) | Raw::Text(text) => text.strip_suffix('%').map(str::trim_end),
        _ => None,
    };
    let Some(share) = share else {
        let or = |wrong: Wrong| Wrong { hint: format!("{}, or \"10 %\"", wrong.hint), ..wrong };
        return read_truth(raw).map_err(or).map(|yes| if yes { Active::ALL } else { Active::NONE });
    };
    let hundredths = share.parse::<f64>().ok().map(|percent| percent * 100.0);
    match hundredths.filter(|of| (0.0..=10_000.0).contains(of) && (of - of.round()).abs() < 1e-6) {
        Some(of) => Ok(Active::of(of.round() as u16)),
        None => Err(wrong(
            format!("\"{share} %\" is not a share"),
            "from \"0 %\" to \"100 %\", with two decimals at most",
        )),
    }
}

fn read_whole<N: TryFrom<i64>>(raw: &Raw, least: i64, most: i64) -> Result<N, Wrong> {
    let hint = format!("a whole number from {least} to {most}");
    let value = match raw {
        Raw::Whole(value) => *value,
        Raw::Flag(text) => text.parse().map_err(|_| wrong(format!("is {text:?}"), hint.clone()))?,
        other => return Err(wrong(format!("is {}", kind(other)), hint)),
    };
    if !(least..=most).contains(&value) {
        return Err(wrong(format!("{value} is out of range"), hint));
    }
    N::try_from(value).map_err(|_| wrong(format!("{value} is out of range"), hint))
}

fn read_span(raw: &Raw, least: Span, most: Span) -> Result<Span, Wrong> {
    let hint = format!("a span from {} to {}, with its unit", show_span(least), show_span(most));
    let text = match raw {
        Raw::Flag(text) | Raw::Text(text) => text,
        Raw::Whole(value) => {
            return Err(wrong(format!("{value} has no unit"), format!("such as \"{value} s\"")));
        }
        other => return Err(wrong(format!("is {}", kind(other)), hint)),
    };
    let value =
        parse_span(text).map_err(|error| wrong(format!("{text:?} {error}"), hint.clone()))?;
    if value < least || value > most {
        return Err(wrong(format!("{text:?} is out of range"), hint));
    }
    Ok(value)
}

fn read_bytes(raw: &Raw, least: u64, most: u64) -> Result<u64, Wrong> {
    let hint = format!("from {} to {}, with its unit", show_bytes(least), show_bytes(most));
    let text = match raw {
        Raw::Flag(text) | Raw::Text(text) => text,
        Raw::Whole(0) if least == 0 => return Ok(0),
        Raw::Whole(value) => {
            return Err(wrong(format!("{value} has no unit"), format!("such as \"{value} B\"")));
        }
        other => return Err(wrong(format!("is {}", kind(other)), hint)),
    };
    let value =
        parse_bytes(text).map_err(|error| wrong(format!("{text:?} {error}"), hint.clone()))?.get();
    if !(least..=most).contains(&value) {
        return Err(wrong(format!("{text:?} is out of range"), hint));
    }
    Ok(value)
}

fn read_addresses(raw: &Raw) -> Result<Vec<IpAddr>, Wrong> {
    match raw {
        Raw::List(list) => {
            let mut all = Vec::new();
            for item in list {
                if matches!(item, Raw::List(_)) {
                    return Err(wrong(
                        "is a list in a list",
                        "such as [\"192.0.2.53\", \"2001:db8::53\"]",
                    ));
                }
                all.extend(read_addresses(item)?);
            }
            Ok(all)
        }
        one => {
            let text = text(one)?;
            let address: IpAddr = text.parse().map_err(|_| {
                let hint = if text.parse::<SocketAddr>().is_ok() {
                    "the address alone; port is a setting of its own"
                } else if text.contains([',', ' ']) {
                    "one address each time: --server A --server B, or server = [\"A\", \"B\"]"
                } else {
                    "such as 192.0.2.53 or 2001:db8::53"
                };
                wrong(format!("{text:?} is not an IP address"), hint)
            })?;
            if let Some(v4) = as_ipv4(address) {
                return Err(wrong(
                    format!("{address} stands for the IPv4 address {v4}"),
                    format!("write {v4}"),
                ));
            }
            if address.is_unspecified() || address.is_multicast() {
                return Err(wrong(
                    format!("{address} is not the address of a single server"),
                    "name the address that clients use",
                ));
            }
            Ok(vec![address])
        }
    }
}

fn read_sockets(raw: &Raw) -> Result<Vec<SocketAddr>, Wrong> {
    const SUCH: &str = "such as 127.0.0.1:5353 or [::1]:5353";
    match raw {
        Raw::List(list) => {
            let mut all = Vec::new();
            for item in list {
                if matches!(item, Raw::List(_)) {
                    return Err(wrong("is a list in a list", SUCH));
                }
                all.extend(read_sockets(item)?);
            }
            Ok(all)
        }
        // A whole list behind a flag, in the form in which it is shown.
        Raw::Flag(list) if serde_json::from_str::<Vec<String>>(list).is_ok() => {
            let items: Vec<String> = serde_json::from_str(list).unwrap_or_default();
            read_sockets(&Raw::List(items.into_iter().map(Raw::Text).collect()))
        }
        one => {
            let text = text(one)?;
            let address: SocketAddr = text
                .parse()
                .map_err(|_| wrong(format!("{text:?} is not an address and port"), SUCH))?;
            if let Some(v4) = as_ipv4(address.ip()) {
                let port = address.port();
                return Err(wrong(
                    format!("{address} stands for the IPv4 address {v4}"),
                    format!("write {v4}:{port}"),
                ));
            }
            if address.ip().is_unspecified() || address.ip().is_multicast() || address.port() == 0 {
                return Err(wrong(
                    format!("{address} is not the address and port of a single server"),
                    SUCH,
                ));
            }
            Ok(vec![address])
        }
    }
}

/// Returns the IPv4 address in an IPv6 one: `::ffff:192.0.2.53`, RFC 4291 (2.5.5.2). No packet has
/// such an address.
fn as_ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    }
}

fn show_list<T: ToString>(list: &[T]) -> String {
    let list: Vec<String> = list.iter().map(|one| quoted(&one.to_string())).collect();
    format!("[{}]", list.join(", "))
}

fn quoted(text: &str) -> String {
    // JSON has the same escapes as TOML's basic strings.
    serde_json::Value::from(text).to_string()
}

/// Returns a span in the file's notation, in its largest whole unit.
fn show_span(span: Span) -> String {
    let ps = span.as_ps();
    const UNITS: [(&str, u64); 6] = [
        ("h", 3_600_000_000_000_000),
        ("min", 60_000_000_000_000),
        ("s", 1_000_000_000_000),
        ("ms", 1_000_000_000),
        ("us", 1_000_000),
        ("ns", 1_000),
    ];
    for (unit, scale) in UNITS {
        if ps > 0 && ps.is_multiple_of(scale) {
            return quoted(&format!("{} {unit}", ps / scale));
        }
    }
    quoted(&if ps == 0 { "0 s".into() } else { format!("{ps} ps") })
}

/// Returns a number of bytes in the file's notation.
fn show_bytes(bytes: u64) -> String {
    quoted(&match bytes {
        0 => "0 B".into(),
        n if n % (1 << 30) == 0 => format!("{} GiB", n >> 30),
        n if n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n % (1 << 10) == 0 && n >= 65_536 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    })
}

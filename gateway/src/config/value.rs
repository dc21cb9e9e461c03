//! Turns values from a file or a flag into settings, and back.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

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

pub(super) fn wrong(what: impl Into<String>, hint: impl Into<String>) -> Wrong {
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

pub(super) fn text(raw: &Raw) -> Result<String, Wrong> {
    match raw {
        Raw::Flag(text) | Raw::Text(text) => Ok(text.clone()),
        other => Err(wrong(format!("is {}, and takes a string", kind(other)), "put it in quotes")),
    }
}

/// A string, or several.
pub(super) fn texts(raw: &Raw) -> Result<Vec<String>, Wrong> {
    match raw {
        Raw::List(list) => list.iter().map(text).collect(),
        one => text(one).map(|text| vec![text]),
    }
}

pub(super) fn truth(raw: &Raw) -> Result<bool, Wrong> {
    match raw {
        Raw::Truth(value) => Ok(*value),
        Raw::Flag(text) if text == "true" => Ok(true),
        Raw::Flag(text) if text == "false" => Ok(false),
        Raw::Flag(text) => Err(wrong(format!("is {text:?}"), "true or false")),
        other => Err(wrong(format!("is {}", kind(other)), "true or false, without quotes")),
    }
}

/// A truth value, or a share in percent with at most two decimals.
pub(super) fn active(raw: &Raw) -> Result<Active, Wrong> {
    let share = match raw {
        Raw::Flag(text) | Raw::Text(text) => text.strip_suffix('%').map(str::trim_end),
        _ => None,
    };
    let Some(share) = share else {
        let or = |wrong: Wrong| Wrong { hint: format!("{}, or \"10 %\"", wrong.hint), ..wrong };
        return truth(raw).map_err(or).map(|yes| if yes { Active::ALL } else { Active::NONE });
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

pub(super) fn whole<N: TryFrom<i64>>(raw: &Raw, least: i64, most: i64) -> Result<N, Wrong> {
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

pub(super) fn span(raw: &Raw, least: Span, most: Span) -> Result<Span, Wrong> {
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

pub(super) fn bytes(raw: &Raw, least: u64, most: u64) -> Result<u64, Wrong> {
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

pub(super) fn one_of<T: Copy>(raw: &Raw, names: &[(&str, T)]) -> Result<T, Wrong> {
    let value = text(raw)?;
    let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    names
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, value)| *value)
        .ok_or_else(|| wrong(format!("is {value:?}"), format!("one of {}", known.join(", "))))
}

pub(super) fn addresses(raw: &Raw) -> Result<Vec<IpAddr>, Wrong> {
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
                all.extend(addresses(item)?);
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

pub(super) fn sockets(raw: &Raw) -> Result<Vec<SocketAddr>, Wrong> {
    const SUCH: &str = "such as 127.0.0.1:5353 or [::1]:5353";
    match raw {
        Raw::List(list) => {
            let mut all = Vec::new();
            for item in list {
                if matches!(item, Raw::List(_)) {
                    return Err(wrong("is a list in a list", SUCH));
                }
                all.extend(sockets(item)?);
            }
            Ok(all)
        }
        // A whole list behind a flag, in the form in which it is shown.
        Raw::Flag(list) if serde_json::from_str::<Vec<String>>(list).is_ok() => {
            let items: Vec<String> = serde_json::from_str(list).unwrap_or_default();
            sockets(&Raw::List(items.into_iter().map(Raw::Text).collect()))
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

pub(super) fn quoted(text: &str) -> String {
    // JSON has the same escapes as TOML's basic strings.
    serde_json::Value::from(text).to_string()
}

/// Returns a span in the file's notation, in its largest whole unit.
pub(super) fn show_span(span: Span) -> String {
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
pub(super) fn show_bytes(bytes: u64) -> String {
    quoted(&match bytes {
        0 => "0 B".into(),
        n if n % (1 << 30) == 0 => format!("{} GiB", n >> 30),
        n if n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n % (1 << 10) == 0 && n >= 65_536 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    })
}

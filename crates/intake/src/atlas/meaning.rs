//! What the probes' words mean: transports, errors, numbers.
//!
//! Source: `evtdig.c` of the probes' firmware, 4460 to 5080, for the keys of `error`. They become
//! the outcomes of docs/measurements.md.

use super::record::{Failure, Number, Record, Text, shortened};

/// Returns the transport's name; `None` if it does not carry DNS.
pub(super) fn transport<S>(record: &Record<'_, S>, port: Option<u64>) -> Option<&'static str> {
    let proto = text(&record.proto)?;
    if proto.eq_ignore_ascii_case("UDP") {
        return Some("udp");
    }
    if !proto.eq_ignore_ascii_case("TCP") {
        return None;
    }
    // DNS over TLS and HTTPS are TCP to the probe; the port, or TLS's version, tells them apart.
    Some(match (port, &record.sslvers) {
        (Some(443), _) => "https",
        (Some(853), _) | (_, Some(_)) => "tls",
        _ => "tcp",
    })
}

/// Returns 4 or 6; NaN if nothing says which.
pub(super) fn family<S>(record: &Record<'_, S>, address: Option<&str>) -> f64 {
    match (whole(record.af), address) {
        (Some(4), _) => 4.0,
        (Some(6), _) => 6.0,
        (_, Some(address)) if address.contains(':') => 6.0,
        (_, Some(_)) => 4.0,
        _ => f64::NAN,
    }
}

/// Returns the outcome, the stage and the probe's own words of a failure.
pub(super) fn failure(failure: &Failure<'_>) -> (&'static str, &'static str, String) {
    let mut detail = String::new();
    for (key, value) in failure.0.iter().take(3) {
        if !detail.is_empty() {
            detail.push_str("; ");
        }
        detail.push_str(shortened(key));
        if !value.is_empty() {
            detail.push_str(": ");
            detail.push_str(shortened(value));
        }
    }
    let mut meaning = ("failed", "");
    for (key, value) in &failure.0 {
        let value = value.to_ascii_lowercase();
        meaning = match key.as_ref() {
            "timeout" => ("timeout", ""),
            "TUCONNECT" if value.contains("refused") => ("refused", "connect"),
            "TUCONNECT" if value.contains("timed out") => ("timeout", "connect"),
            "TUCONNECT" if value.contains("reset") => ("refused", "connect"),
            "TUCONNECT" => ("unreachable", "connect"),
            // The probe uses the same word for a reset and for a close.
            "TU_READ_ERR" => ("closed", "query"),
            "TCPREADSIZE" | "TCPREAD" => ("malformed", "reply"),
            "idmismatch" => ("mismatched", "reply"),
            "TU_BAD_ADDR" | "reason" | "TUDNS" | "TUSOCKET" | "TU_OUT_OF_ADDRESS" | "socket"
            | "getaddrinfo" | "senderror" | "nameserver" => ("not-asked", ""),
            _ => continue,
        };
        // A refusal by the probe itself says more than the keys beside it.
        if meaning.0 == "not-asked" {
            break;
        }
    }
    (meaning.0, meaning.1, detail)
}

/// Returns a text that is present and not empty.
pub(super) fn text<'a>(field: &'a Option<Text<'_>>) -> Option<&'a str> {
    field.as_ref().map(|Text(text)| text.as_ref()).filter(|text| !text.is_empty())
}

/// Returns a number that is whole, not negative and exact as a float.
pub(super) fn whole(field: Option<Number>) -> Option<u64> {
    let Number(value) = field?;
    ((0.0..=MOST_EXACT).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

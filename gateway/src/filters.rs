//! Packet-filter rules that TCP to the DNS port bypasses.
//!
//! XDP runs before netfilter, and it passes on UDP datagrams. So rules about TCP port 53 no longer
//! see those connections, but rules about UDP port 53 do. An operator who relies on the former has
//! to know that.
//!
//! Rules about any TCP that count or limit (`limit`, `ct count`, `-m connlimit`) also miss those
//! connections' SYNs. Other rules without a port hold as before: to them, what the kernel takes
//! over is an ordinary connection.

use std::fmt;

use serde_json::Value;

/// A rule or policy that is bypassed, or that blocks the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `nft inet filter input` or `iptables filter INPUT`.
    pub place: String,
    /// The rule, or what the policy does.
    pub rule: String,
    /// Whether it is bypassed; otherwise it blocks the datagrams.
    pub bypassed: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.bypassed {
            "would be bypassed"
        } else {
            "may drop queries on their way to the server"
        };
        write!(f, "{}: {} {what}", self.place, self.rule)
    }
}

/// Searches `nft -j list ruleset` (libnftables-json(5)). With `without_iptables`, it leaves tables
/// of `ip` and `ip6` that iptables owns to [`iptables`].
pub fn nft(ruleset: &Value, port: u16, without_iptables: bool) -> Vec<Finding> {
    let objects: Vec<&Value> = ruleset["nftables"].as_array().into_iter().flatten().collect();
    let of = |kind: &'static str| objects.iter().filter_map(move |object| object.get(kind));
    let owned = |object: &Value| {
        without_iptables
            && matches!(object["family"].as_str(), Some("ip" | "ip6"))
            && matches!(
                object["table"].as_str(),
                Some("filter" | "nat" | "mangle" | "raw" | "security")
            )
    };
    let set = |table: &Value, name: &str| {
        of("set").chain(of("map")).find(|set| {
            set["table"] == table["table"]
                && set["family"] == table["family"]
                && set["name"] == name
        })
    };
    let mut found = Vec::new();
    for rule in of("rule").filter(|rule| !owned(rule)) {
        let matched = names(rule, "tcp", port, &set) || (limits(rule) && any_tcp(rule));
        if matched && !is_plain_accept(rule) {
            let words: Vec<String> =
                rule["expr"].as_array().into_iter().flatten().map(in_words).collect();
            found.push(Finding {
                place: place(rule, rule["chain"].as_str()),
                rule: words.join(" "),
                bypassed: true,
            });
        }
    }
    for chain in of("chain").filter(|chain| !owned(chain)) {
        if chain["policy"] != "drop" || chain["hook"] != "input" {
            continue;
        }
        let place = place(chain, chain["name"].as_str());
        let accepts = |protocol: &str| {
            of("rule").any(|rule| {
                rule["table"] == chain["table"]
                    && rule["family"] == chain["family"]
                    && names(rule, protocol, port, &set)
            })
        };
        if !accepts("tcp") {
            found.push(Finding {
                place: place.clone(),
                rule: format!("policy drop, with no rule about TCP port {port},"),
                bypassed: true,
            });
        }
        if !accepts("udp") {
            found.push(Finding {
                place,
                rule: format!("policy drop, with no rule about UDP port {port},"),
                bypassed: false,
            });
        }
    }
    found
}

/// Searches the output of iptables-save(8) or ip6tables-save(8); `name` says which.
pub fn iptables(name: &str, text: &str, port: u16) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut table = "";
    let mut dropping: Vec<String> = Vec::new();
    let mut mentioned = [false; 2];
    for line in text.lines() {
        if let Some(new) = line.strip_prefix('*') {
            table = new.trim();
        } else if table == "filter" && line.starts_with(":INPUT DROP") {
            dropping.push(format!("{name} filter INPUT"));
        } else if let Some(rule) = line.strip_prefix("-A ") {
            let words: Vec<&str> = rule.split_whitespace().collect();
            let of = |protocol: &str| {
                let here = words
                    .windows(2)
                    .any(|pair| matches!(pair[0], "-p" | "--protocol") && pair[1] == protocol);
                here && ports(&words, port)
            };
            let limits = ["limit", "hashlimit", "connlimit", "recent"]
                .iter()
                .any(|limit| words.windows(2).any(|pair| pair == ["-m", *limit]));
            let any = |protocol: &str| {
                words.windows(2).any(|pair| pair[0] == "-p" && pair[1] == protocol)
                    && !words.iter().any(|word| word.ends_with("ports") || word.ends_with("port"))
            };
            mentioned[0] |= of("tcp");
            mentioned[1] |= of("udp");
            let others = words.iter().any(|word| matches!(*word, "-s" | "-d" | "-i" | "-o" | "!"))
                || words.iter().filter(|word| **word == "-m").count() > 1;
            let plain = words.windows(2).any(|pair| pair == ["-j", "ACCEPT"]) && !others;
            if (of("tcp") && !plain) || (limits && any("tcp")) {
                let chain = words.first().copied().unwrap_or_default();
                found.push(Finding {
                    place: format!("{name} {table} {chain}"),
                    rule: words[1..].join(" "),
                    bypassed: true,
                });
            }
        }
    }
    for place in dropping {
        if !mentioned[0] {
            let rule = format!("policy DROP, with no rule about TCP port {port},");
            found.push(Finding { place: place.clone(), rule, bypassed: true });
        }
        if !mentioned[1] {
            found.push(Finding {
                place,
                rule: format!("policy DROP, with no rule about UDP port {port},"),
                bypassed: false,
            });
        }
    }
    found
}

fn place(object: &Value, chain: Option<&str>) -> String {
    let word = |name: &str| object[name].as_str().unwrap_or("?");
    format!("nft {} {} {}", word("family"), word("table"), chain.unwrap_or("?"))
}

/// Returns whether an nft rule is about this port of this protocol.
fn names<'a>(
    rule: &Value,
    protocol: &str,
    port: u16,
    set: &dyn Fn(&Value, &str) -> Option<&'a Value>,
) -> bool {
    let expressions = || rule["expr"].as_array().into_iter().flatten();
    let l4 = expressions().any(|expression| {
        let m = &expression["match"];
        m["left"]["meta"]["key"] == "l4proto" && mentions(&m["right"], protocol)
    });
    expressions().any(|expression| {
        let m = &expression["match"];
        let left = &m["left"];
        let parts: Vec<&Value> =
            left["concat"].as_array().map_or_else(|| vec![left], |parts| parts.iter().collect());
        let ours = parts.iter().any(|part| {
            let payload = &part["payload"];
            let field = payload["field"] == "dport" || payload["field"] == "sport";
            field && (payload["protocol"] == protocol || (payload["protocol"] == "th" && l4))
        });
        let right = match m["right"].as_str().and_then(|name| name.strip_prefix('@')) {
            Some(name) => set(rule, name).map_or(&Value::Null, |set| &set["elem"]),
            None => &m["right"],
        };
        // Any part of a concatenation may be the port.
        ours && (holds(right, port) != (m["op"] == "!="))
    })
}

/// Returns whether a rule counts or limits what it matches.
fn limits(rule: &Value) -> bool {
    let kinds = ["limit", "ct count", "meter", "quota"];
    let in_a_set = |body: &Value| {
        let statements = body["stmt"].as_array().into_iter().flatten();
        statements.filter_map(Value::as_object).flatten().any(|(kind, _)| kinds.contains(&&**kind))
    };
    let parts = rule["expr"].as_array().into_iter().flatten().filter_map(Value::as_object);
    parts
        .flatten()
        .any(|(kind, body)| kinds.contains(&&**kind) || (kind == "set" && in_a_set(body)))
}

/// Returns whether a rule is about TCP, on any port.
fn any_tcp(rule: &Value) -> bool {
    let expressions = || rule["expr"].as_array().into_iter().flatten().map(|part| &part["match"]);
    let field = |left: &Value| left["payload"]["field"].as_str().map(str::to_owned);
    let port = |left: &Value| matches!(field(left).as_deref(), Some("dport" | "sport"));
    let tcp = |m: &Value| {
        let left = match m["left"]["&"].as_array().and_then(|both| both.first()) {
            Some(masked) => masked,
            None => &m["left"],
        };
        left["payload"]["protocol"] == "tcp"
            || ((left["meta"]["key"] == "l4proto"
                || left["payload"]["field"] == "protocol"
                || left["payload"]["field"] == "nexthdr")
                && mentions(&m["right"], "tcp"))
    };
    expressions().any(tcp) && !expressions().any(|m| port(&m["left"]))
}

fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => text == word,
        Value::Array(items) => items.iter().any(|item| mentions(item, word)),
        Value::Object(fields) => fields.values().any(|field| mentions(field, word)),
        _ => false,
    }
}

/// Returns whether a number, a range, a set or a service's name is or contains the port.
fn holds(value: &Value, port: u16) -> bool {
    match value {
        Value::Number(number) => number.as_u64() == Some(port.into()),
        Value::String(name) => name == "domain" && port == 53,
        Value::Array(items) => items.iter().any(|item| holds(item, port)),
        Value::Object(fields) => {
            match fields.get("range").and_then(Value::as_array).map(Vec::as_slice) {
                Some([low, high]) => {
                    low.as_u64() <= Some(port.into()) && high.as_u64() >= Some(port.into())
                }
                _ => fields.values().any(|field| holds(field, port)),
            }
        }
        _ => false,
    }
}

/// Bypassing a rule that accepts the port from anyone loses nothing.
fn is_plain_accept(rule: &Value) -> bool {
    let mut accepts = false;
    for expression in rule["expr"].as_array().into_iter().flatten() {
        let Some((kind, body)) = expression.as_object().and_then(|object| object.iter().next())
        else {
            return false;
        };
        let port_or_protocol =
            body["left"]["payload"]["field"] == "dport" || body["left"]["meta"]["key"] == "l4proto";
        match kind.as_str() {
            "accept" => accepts = true,
            "counter" | "comment" => {}
            "match" if port_or_protocol => {}
            _ => return false,
        }
    }
    accepts
}

/// Returns a rule's expression in nft's syntax, as far as it is simple.
fn in_words(expression: &Value) -> String {
    let Some((kind, body)) = expression.as_object().and_then(|object| object.iter().next()) else {
        return expression.to_string();
    };
    match (kind.as_str(), body) {
        ("match", body) => {
            let left = &body["left"];
            let payload = left.get("payload").map(|payload| {
                format!(
                    "{} {}",
                    payload["protocol"].as_str().unwrap_or("?"),
                    payload["field"].as_str().unwrap_or("?")
                )
            });
            let meta = left
                .get("meta")
                .map(|meta| format!("meta {}", meta["key"].as_str().unwrap_or("?")));
            let op = match body["op"].as_str() {
                None | Some("==" | "in") => String::new(),
                Some(op) => format!("{op} "),
            };
            let left = payload.or(meta).unwrap_or_else(|| left.to_string());
            format!("{left} {op}{}", operand(&body["right"]))
        }
        (kind, Value::Null) => kind.to_owned(),
        ("counter", _) => "counter".into(),
        ("jump" | "goto", body) => format!("{kind} {}", body["target"].as_str().unwrap_or("?")),
        (kind, body) => format!("{kind} {body}"),
    }
}

fn operand(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => match (
            fields.get("set").and_then(Value::as_array),
            fields.get("range").and_then(Value::as_array),
        ) {
            (Some(items), _) => {
                format!("{{ {} }}", items.iter().map(operand).collect::<Vec<_>>().join(", "))
            }
            (_, Some(ends)) => ends.iter().map(operand).collect::<Vec<_>>().join("-"),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

/// Returns whether the ports of an iptables rule (`--dport 53`, `--dports 53,80:90`) include this
/// one.
fn ports(words: &[&str], port: u16) -> bool {
    let mut negated = false;
    for pair in words.windows(2) {
        if matches!(
            pair[0],
            "--dport"
                | "--dports"
                | "--sport"
                | "--sports"
                | "--ports"
                | "--destination-port"
                | "--source-port"
        ) {
            let inside = pair[1].split(',').any(|part| match part.split_once(':') {
                Some((low, high)) => {
                    low.parse().unwrap_or(0) <= port && port <= high.parse().unwrap_or(u16::MAX)
                }
                None => part.parse() == Ok(port) || (part == "domain" && port == 53),
            });
            if inside != negated {
                return true;
            }
        }
        negated = pair[0] == "!";
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(expr: &Value) -> Value {
        json!({ "nftables": [ { "metainfo": {} },
            { "set": { "family": "inet", "table": "filter", "name": "ports", "elem": [53, 443] } },
            { "rule": { "family": "inet", "table": "filter", "chain": "input", "handle": 3, "expr": expr } } ] })
    }

    fn dport(right: &Value) -> Value {
        json!({ "match": { "op": "==", "left": { "payload": { "protocol": "tcp", "field": "dport" } }, "right": right } })
    }

    #[test]
    fn rules_about_tcp_port_53_are_found() {
        for right in [
            json!(53),
            json!({ "set": [22, 53] }),
            json!({ "set": [{ "range": [50, 60] }] }),
            json!({ "range": [1, 1023] }),
            json!("@ports"),
            json!("domain"),
        ] {
            let found = nft(&rule(&json!([dport(&right), { "drop": null }])), 53, false);
            assert_eq!(found.len(), 1, "{right}");
            assert!(found[0].bypassed && found[0].place == "nft inet filter input");
        }
        let found = nft(
            &rule(
                &json!([dport(&json!({ "set": [53, 80] })), { "counter": { "packets": 1 } }, { "drop": null }]),
            ),
            53,
            false,
        );
        assert_eq!(
            found[0].to_string(),
            "nft inet filter input: tcp dport { 53, 80 } counter drop would be bypassed"
        );
    }

    #[test]
    fn other_rules_are_not() {
        for right in
            [json!(54), json!({ "set": [22, 80] }), json!({ "range": [54, 60] }), json!("@other")]
        {
            assert!(
                nft(&rule(&json!([dport(&right), { "drop": null }])), 53, false).is_empty(),
                "{right}"
            );
        }
        let not = json!([{ "match": { "op": "!=", "left": { "payload": { "protocol": "tcp", "field": "dport" } }, "right": 53 } }, { "drop": null }]);
        assert!(nft(&rule(&not), 53, false).is_empty());
        let udp = json!([{ "match": { "op": "==", "left": { "payload": { "protocol": "udp", "field": "dport" } }, "right": 53 } }, { "drop": null }]);
        assert!(nft(&rule(&udp), 53, false).is_empty());
        assert!(nft(&rule(&json!([dport(&json!(53)), { "accept": null }])), 53, false).is_empty());
    }

    #[test]
    fn an_accept_with_a_condition_is_a_rule_that_is_lost() {
        let from = json!({ "match": { "op": "==", "left": { "payload": { "protocol": "ip", "field": "saddr" } }, "right": "192.0.2.1" } });
        assert_eq!(
            nft(&rule(&json!([from, dport(&json!(53)), { "accept": null }])), 53, false).len(),
            1
        );
        assert_eq!(nft(&rule(&json!([{ "match": { "op": "==", "left": { "meta": { "key": "l4proto" } }, "right": "tcp" } },
            { "match": { "op": "==", "left": { "payload": { "protocol": "th", "field": "dport" } }, "right": 53 } }, { "limit": { "rate": 5 } }, { "accept": null }])), 53, false).len(), 1);
    }

    #[test]
    fn limits_of_any_tcp_are_found_and_other_rules_without_a_port_are_not() {
        // As nft 1.0.6 prints them.
        let flags = json!({ "match": { "op": "in", "left": { "payload": { "protocol": "tcp", "field": "flags" } }, "right": "syn" } });
        let limit = json!({ "limit": { "rate": 10, "burst": 5, "per": "second", "inv": true } });
        let count = json!({ "ct count": { "val": 20, "inv": true } });
        let l4proto = json!({ "match": { "op": "==", "left": { "meta": { "key": "l4proto" } }, "right": "tcp" } });
        let drop = json!({ "drop": null });
        let finds = |expr: Value| nft(&rule(&expr), 53, false).len();
        assert_eq!(finds(json!([flags, limit, drop])), 1);
        assert_eq!(finds(json!([l4proto, count, drop])), 1);
        assert_eq!(finds(json!([dport(&json!(22)), limit, drop])), 0, "another port");
        assert_eq!(finds(json!([limit, drop])), 0, "it sees the datagrams");
        let masked = json!({ "match": { "op": "!=", "left": { "&": [{ "payload": { "protocol": "tcp", "field": "flags" } }, ["fin", "syn", "rst", "ack"]] }, "right": "syn" } });
        assert_eq!(finds(json!([masked, drop])), 0, "it is shown a handshake");
        let text = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -m limit --limit 10/sec -j ACCEPT\n\
            -A INPUT -p tcp -m conntrack --ctstate NEW -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 22 -m connlimit --connlimit-above 3 -j DROP\n\
            -A INPUT -p tcp -m connlimit --connlimit-above 30 -j DROP\nCOMMIT\n";
        assert_eq!(iptables("iptables", text, 53).len(), 2);
    }

    #[test]
    fn a_policy_of_drop_is_named() {
        let ruleset = json!({ "nftables": [ { "chain": { "family": "inet", "table": "f", "name": "in", "type": "filter", "hook": "input", "policy": "drop" } } ] });
        let found = nft(&ruleset, 53, false);
        assert_eq!(found.iter().map(|finding| finding.bypassed).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn rules_of_iptables_are_found() {
        let text = "# Generated by iptables-save v1.8.9\n*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n\
            -A INPUT -p tcp -m tcp --dport 53 -j DROP\n-A INPUT -p udp -m udp --dport 53 -j DROP\n\
            -A INPUT -s 192.0.2.0/24 -p tcp -m multiport --dports 22,50:60 -j ACCEPT\n\
            -A INPUT -p tcp -m tcp --dport 53 -j ACCEPT\n-A INPUT -p tcp -m tcp ! --dport 53 -j DROP\n\
            -A INPUT -p tcp -m tcp --dport 80 -j DROP\nCOMMIT\n";
        let found = iptables("iptables", text, 53);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            found[0].to_string(),
            "iptables filter INPUT: -p tcp -m tcp --dport 53 -j DROP would be bypassed"
        );
        assert!(found[1].rule.contains("22,50:60"));
    }

    #[test]
    fn a_dropping_policy_of_iptables_is_named() {
        let found = iptables(
            "ip6tables",
            "*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 53 -j ACCEPT\nCOMMIT\n",
            53,
        );
        assert_eq!(found.len(), 1);
        assert!(found[0].bypassed && found[0].place == "ip6tables filter INPUT");
    }

    #[test]
    fn nonsense_is_none() {
        assert!(nft(&json!(null), 53, false).is_empty());
        assert!(nft(&json!({ "nftables": [3, { "rule": 4 }, { "rule": { "expr": [[], { "match": 3 }] } }] }), 53, false).is_empty());
        assert!(iptables("iptables", "-A\n-A \n*\n--dport", 53).is_empty());
    }
}

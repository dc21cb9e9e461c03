//! What an operator should know of a server's limit, and what can be done about it.

use super::{Asked, Limit, Question};

/// What the gateway wants of the server.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The payload size in its queries.
    pub edns_size: u16,
    /// Whether it could truncate longer replies to UDP clients and does not yet do so.
    pub truncates: bool,
    /// What the operator named.
    pub question: Option<&'a Question>,
}

impl Wanted<'_> {
    fn question(&self) -> String {
        self.question.map_or("the reply".into(), |question| format!("its reply to {question}"))
    }
}

impl Limit {
    /// Returns what an operator should know of it, if a reply may cost more with the gateway than
    /// without. `who` names the addresses for which this holds.
    pub fn caveat(&self, who: &str, wanted: Wanted) -> Option<String> {
        let Wanted { edns_size, .. } = wanted;
        let size = edns_size.min(self.software.map_or(u16::MAX, |software| software.most));
        let server = match self.software {
            Some(software) => format!("the server at {who} ({})", software.name),
            None => format!("the server at {who}"),
        };
        let stated = usize::from(self.stated.unwrap_or(0));
        match (self.software, &self.asked) {
            (_, Some(Asked::Truncated(Some(length)))) if *length > edns_size.into() => {
                Some(format!(
                    "{server} truncates {} over UDP, as it has {length} bytes: {COSTS}; hint: its \
                     length is above edns_size ({edns_size}), too; raise both if many clients ask \
                     for such replies",
                    wanted.question()
                ))
            }
            (_, Some(Asked::Truncated(length))) => {
                let length =
                    length.map_or(String::new(), |n| format!(", though it has only {n} bytes"));
                Some(format!(
                    "{server} truncates {} over UDP{length}: {COSTS}; hint: {}",
                    wanted.question(),
                    self.remedy(size, wanted)
                ))
            }
            (_, Some(Asked::Nothing(rcode))) => {
                let how = rcode.map_or("no reply".into(), |rcode| match rcode {
                    0 => "no records".into(),
                    5 => "REFUSED".into(),
                    rcode => format!("RCODE {rcode}"),
                });
                Some(format!(
                    "{server} gave nothing to measure in {} ({how}), so its longest replies over \
                     UDP are unknown; hint: --long-reply takes a name and a type that the server \
                     has",
                    wanted.question()
                ))
            }
            // Longer than what the server states, so it states something else.
            (_, Some(Asked::Whole(length))) if *length > stated => None,
            (Some(software), _) if !software.states => Some(format!(
                "{server} does not tell how long its replies over UDP may be, and truncates longer \
                 ones: {COSTS}; hint: ask for a long one with --long-reply \"NAME TYPE\"; if it is \
                 truncated, {}",
                self.remedy(size, wanted)
            )),
            _ if self.stated.is_some_and(|stated| stated < size) => Some(format!(
                "{server} sends at most {stated} bytes over UDP, less than edns_size \
                 ({edns_size}), and truncates longer replies: {COSTS}; hint: {}",
                self.remedy(size, wanted)
            )),
            _ => None,
        }
    }

    fn remedy(&self, size: u16, wanted: Wanted) -> String {
        let setting = match self.software {
            Some(software) => format!("set {} to {size} in {}", software.setting, software.name),
            None => format!("let the server send {size} bytes over UDP"),
        };
        if !wanted.truncates {
            return setting;
        }
        let most = self.stated.unwrap_or(1232).max(512);
        format!(
            "{setting}, and truncate_over = \"{most} B\" here, so that UDP clients get no more \
             than now"
        )
    }
}

/// The cost of a limit that is lower than the payload size in the gateway's queries.
const COSTS: &str = "a client over TCP that asks for such a reply costs a query over UDP and \
                     then one over the kernel's TCP, more than without the gateway";

#[cfg(test)]
mod tests {
    use super::super::software::{KNOWN, Software};
    use super::*;

    fn software(name: &str) -> Option<Software> {
        KNOWN.into_iter().find(|software| software.name == name)
    }

    /// Returns the caveat with edns_size 4096, without truncate_over.
    fn caveat(name: &str, stated: Option<u16>, asked: Option<Asked>) -> Option<String> {
        let question = "example.com DNSKEY".parse().expect("a question");
        let wanted = Wanted {
            edns_size: 4096,
            truncates: true,
            question: asked.as_ref().map(|_| &question),
        };
        Limit { software: software(name), stated, asked }.caveat("192.0.2.53:53", wanted)
    }

    #[test]
    fn a_limit_below_edns_size_is_told_with_its_remedy() {
        for (name, setting) in [
            ("NSD", "ipv4-edns-size"),
            ("Knot", "udp-max-payload"),
            ("PowerDNS", "udp-truncation-threshold"),
        ] {
            let said = caveat(name, Some(1232), None).expect("a caveat");
            assert!(said.contains("sends at most 1232 bytes"), "{said}");
            assert!(said.contains(&format!("set {setting}")) && said.contains("to 4096"), "{said}");
            assert!(said.contains("truncate_over = \"1232 B\""), "{said}");
            assert_eq!(caveat(name, Some(4096), None), None);
        }
        assert!(caveat("", Some(1232), None).is_some_and(|said| said.contains("sends at most")));
        assert_eq!(caveat("", None, None), None, "nothing is known");
    }

    #[test]
    fn what_bind_and_unbound_state_is_not_their_limit() {
        for name in ["BIND", "Unbound"] {
            for stated in [1232, 4096] {
                let said = caveat(name, Some(stated), None).expect("a caveat");
                assert!(said.contains("--long-reply") && said.contains("max-udp-size"), "{said}");
                assert!(!said.contains("at most"), "{said}");
            }
            assert_eq!(caveat(name, Some(1232), Some(Asked::Whole(2000))), None);
            // Any server sends such a reply.
            assert!(caveat(name, Some(1232), Some(Asked::Whole(700))).is_some());
        }
    }

    #[test]
    fn a_long_reply_decides() {
        let said = caveat("BIND", Some(1232), Some(Asked::Truncated(Some(1731))));
        let said = said.expect("a caveat");
        assert!(said.contains("truncates its reply to example.com DNSKEY over UDP"), "{said}");
        assert!(said.contains("1731 bytes") && said.contains("max-udp-size to 4096"), "{said}");
        let said = caveat("NSD", Some(4096), Some(Asked::Truncated(Some(5000)))).expect("a caveat");
        assert!(said.contains("above edns_size (4096)"), "{said}");
        let said = caveat("NSD", Some(4096), Some(Asked::Nothing(Some(5)))).expect("a caveat");
        assert!(said.contains("REFUSED"), "{said}");
    }
}

//! Tells whether pinned maps belong to this version of the programs.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Returns a hash of the shared structures. Pinned maps with another hash belong to another
/// version.
pub(super) fn hash() -> u64 {
    let mut hash = SipHasher13::new();
    let settings = include_str!(concat!(env!("OUT_DIR"), "/settings.h"));
    for header in [include_str!("../../bpf/types.h"), include_str!("../../bpf/maps.h"), settings] {
        hash.write(without_comments(header).as_bytes());
    }
    hash.finish()
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some(start) = rest.find("/*") {
        kept.push_str(&rest[..start]);
        rest = rest[start..].find("*/").map_or("", |end| &rest[start + end + 2..]);
    }
    kept.push_str(rest);
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_white_space_are_not_part_of_the_layout() {
        assert_eq!(without_comments("a /* b */\n\tc /* d\n e */ f"), "a c f");
        assert_eq!(without_comments("a /* open"), "a");
    }
}

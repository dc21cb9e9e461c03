//! What was odd in messages and connections that a capture still gave rows for.

/// A kind of remark about a capture. Programs know it by its name; its text is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remark {
    /// TCP bytes that belong to no recognisable message.
    Unframed,
    /// The capture kept the header of a message, but not its whole question.
    NoQuestion,
    /// A connection whose client begins with a TLS handshake, so its messages cannot be read.
    Tls,
    /// A message over TCP that is neither a query nor a reply, or comes from the wrong side.
    NoDns,
    /// The capture kept too little of a message to read its header.
    Headless,
    /// Busy connections were given up to make room for others.
    TooMany,
}

impl Remark {
    /// All kinds, in order.
    pub const ALL: [Self; 6] =
        [Self::Unframed, Self::NoQuestion, Self::Tls, Self::NoDns, Self::Headless, Self::TooMany];

    /// Returns the name, which stays the same if the text changes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unframed => "unframed",
            Self::NoQuestion => "no-question",
            Self::Tls => "tls",
            Self::NoDns => "no-dns",
            Self::Headless => "headless",
            Self::TooMany => "too-many",
        }
    }

    /// Returns what is odd, in a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unframed => "TCP bytes that belong to no message",
            Self::NoQuestion => "a DNS message whose name and type the capture cut off",
            Self::Tls => "a TCP connection that carries TLS",
            Self::NoDns => "a TCP message that is no DNS query or reply",
            Self::Headless => "a TCP message whose header the capture cut off",
            Self::TooMany => "more open connections than are kept",
        }
    }

    /// Returns whether the capture cut off a message before the end of its question.
    pub const fn is_cut_off(self) -> bool {
        matches!(self, Self::NoQuestion | Self::Headless)
    }
}

#[cfg(test)]
mod tests {
    use super::Remark;

    #[test]
    fn names_and_texts_are_distinct_and_in_order() {
        let mut names = Remark::ALL.map(Remark::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(Remark::ALL.map(Remark::text).is_sorted());
        assert!(Remark::ALL.is_sorted());
    }
}

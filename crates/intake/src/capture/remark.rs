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
    /// A message with the time of BIND's clock, which goes in steps of 4 ms.
    Coarse,
    /// A packet that its file has behind later ones; it was put into order.
    OutOfOrder,
    /// A packet that its file has behind others that are more than a second later. It was read in
    /// the file's order.
    Late,
    /// A reply over UDP to a query of which every attempt had its reply.
    SecondReply,
    /// Busy connections were given up to make room for others.
    TooMany,
}

impl Remark {
    /// All kinds, in order.
    pub const ALL: [Self; 10] = [
        Self::Unframed,
        Self::NoQuestion,
        Self::Tls,
        Self::NoDns,
        Self::Headless,
        Self::Coarse,
        Self::OutOfOrder,
        Self::Late,
        Self::SecondReply,
        Self::TooMany,
    ];

    /// Returns the name, which stays the same if the text changes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unframed => "unframed",
            Self::NoQuestion => "no-question",
            Self::Tls => "tls",
            Self::NoDns => "no-dns",
            Self::Headless => "headless",
            Self::Coarse => "coarse",
            Self::OutOfOrder => "out-of-order",
            Self::Late => "late",
            Self::SecondReply => "second-reply",
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
            Self::Coarse => "a dnstap message of BIND, whose clock goes in steps of 4 ms",
            Self::OutOfOrder => "a packet behind later ones, which was put into order",
            Self::Late => "a packet behind others that are over a second later",
            Self::SecondReply => "a UDP reply to a query that had its reply",
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
        let mut texts = Remark::ALL.map(Remark::text);
        texts.sort_unstable();
        assert!(texts.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(Remark::ALL.is_sorted());
    }
}

//! One counter for each verdict, under the names and in the order of `COUNTERS` in `bpf/types.h`.

macro_rules! counters {
    ($($variant:ident $name:literal $text:literal)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] $variant,)*
        }

        impl Counter {
            /// All counters, in the order of `bpf/types.h`.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name that users see.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Returns what it counts, in a few words.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

counters! {
    Malformed "malformed" "headers that make no sense; passed, the kernel drops them"
    BadChecksum "bad_checksum" "segments with a wrong TCP checksum; dropped"
    Syn "syn" "SYNs answered"
    SynLimited "syn_limited" "SYNs above the rate of their source; dropped"
    SynCacheFull "syn_cache_full" "SYNs that found no room in the SYN cache and got a cookie alone"
    HandshakeAck "handshake_ack" "ACKs of handshakes; dropped, as they say nothing new"
    Ack "ack" "ACKs on entries"
    Probe "probe" "keep-alive probes; acknowledged"
    UnknownAck "unknown_ack" "ACKs of nothing known; dropped"
    UnknownFin "unknown_fin" "FINs of nothing known; dropped, or answered with RST"
    UnknownData "unknown_data" "data of nothing known; dropped, or answered with RST"
    Reset "reset" "RSTs that removed an entry"
    OddFlags "odd_flags" "SYNs with other flags, segments without any; dropped"
    Query "query" "queries given to the server"
    QueryLater "query_later" "of them, queries after the first of their connection"
    QueryPipelined "query_pipelined" "of them, queries sent before the reply to the one before had come"
    QueryAgain "query_again" "queries given to the server again, as they came again"
    QueryWaits "query_waits" "queries that came again while the server had time to answer; dropped, or acknowledged again"
    QueryEarlier "query_earlier" "queries that came again after a later one of their connection; acknowledged"
    QueryLimited "query_limited" "queries of sources above their rate, or left unanswered over UDP; left to the kernel"
    QueryNoRoom "query_no_room" "queries that found no room for an entry; dropped"
    Strange "strange" "segments that fit no state of their entry; dropped"
    Closed "closed" "connections closed in order"
    Expired "expired" "entries removed after their time"
    SynPassed "syn_passed" "SYNs left to the kernel: the server has no UDP socket, or listens with MPTCP"
    SynAside "syn_aside" "SYNs left to the kernel: of clients beyond the share that is served, or SYN cookies are off"
    KernelHasIt "kernel_has_it" "segments of connections that the kernel has, or is to have; passed"
    ToKernelTransfer "to_kernel_transfer" "zone transfers left to the kernel"
    ToKernelKeepalive "to_kernel_keepalive" "queries with the edns-tcp-keepalive option, left to the kernel"
    ToKernelUnusual "to_kernel_unusual" "first data that is not one whole query, left to the kernel"
    ToKernelSecond "to_kernel_second" "queries after the first that are not served here, left to the kernel"
    ToKernelPipelined "to_kernel_pipelined" "second queries before the reply to the first; both left to the kernel"
    Kept "kept" "second queries kept until the client has the reply to the first"
    ToKernelLarge "to_kernel_large" "queries left to the kernel because their name had a large reply"
    ToKernelReply "to_kernel_reply" "queries put to the kernel because the UDP reply was cut off after some records, or is too long to be sent here"
    ToKernelRefused "to_kernel_refused" "queries put to the kernel because the UDP reply had no records: too long for UDP, or a rate limit, or BADCOOKIE"
    ToKernelDown "to_kernel_down" "first queries left to the kernel because the server has no UDP socket"
    ToKernelSilent "to_kernel_silent" "queries left to the kernel because the server did not answer in time over UDP"
    Adopted "adopted" "connections that the kernel took over"
    AdoptFailed "adopt_failed" "connections that the kernel did not take: no listener, or no memory"
    AdoptLimited "adopt_limited" "segments that wait because the server takes no more connections; dropped, and come again"
    Reply "reply" "replies sent in one segment"
    ReplySegmented "reply_segmented" "replies sent in several segments"
    ReplySegments "reply_segments" "segments of them"
    ReplyRepeated "reply_repeated" "replies that came again from the server, or after the kernel took over; dropped"
    ReplyFailed "reply_failed" "replies that could not be sent: the kernel refused a helper's call"
    Resent "resent" "segments sent again from the ring"
    ResendGone "resend_gone" "queries sent again whose reply had left the ring; answered with RST"
    PathMtu "path_mtu" "messages of routers that made a connection's segments shorter"
    BlackHole "black_hole" "connections whose segments were made shorter as one got lost again and again"
    Truncated "truncated" "UDP replies rewritten as truncated"
    XdpError "xdp_error" "packets that a helper refused to change; dropped"
}

/// The counts since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Counter::ALL.len()])
    }
}

impl Counters {
    /// Returns how often this was counted.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Returns every counter and its count, in the order of [`Counter::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|&counter| (counter, self.get(counter)))
    }

    pub(super) fn add(&mut self, counter: Counter, n: u64) {
        self.0[counter as usize] += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns each `X(NAME, "text")` of the header, in its order.
    fn of_the_header() -> Vec<(String, String)> {
        let header = include_str!("../../bpf/types.h");
        let list = header.split("#define COUNTERS(X)").nth(1).expect("the list");
        let mut rest = list.split("enum counter").next().expect("its end");
        let mut counters = Vec::new();
        while let Some((_, after)) = rest.split_once("X(") {
            let (name, after) = after.split_once(',').expect("a name");
            let (_, after) = after.split_once('"').expect("a text");
            let (text, after) = after.split_once('"').expect("its end");
            counters.push((name.trim().to_lowercase(), text.to_owned()));
            rest = after;
        }
        counters
    }

    #[test]
    fn names_texts_and_order_are_those_of_the_programs() {
        let ours: Vec<_> =
            Counter::ALL.iter().map(|c| (c.name().to_owned(), c.text().to_owned())).collect();
        assert_eq!(ours, of_the_header());
    }
}

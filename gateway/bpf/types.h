/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What the programs and the user side share: settings, entries, counters. The user side gets these
 * layouts from the object's BTF, through the generated skeleton; src/core/ has the same fields
 * under the same names. PROTOCOL.md explains them.
 */
#pragma once

#include "settings.h"

#define SERVERS_MAX 16
#define EPOCHS 2 /* accepted keys: the current one and the one before */

/* A SipHash key, as two little-endian words. */
struct cookie_key {
	__u64 k0;
	__u64 k1;
};

/* Written by the user side at start and when the configuration is read again. SETTINGS are the
 * fields that src/config/keys.rs declares; build.rs writes them into settings.h. */
struct settings {
	struct cookie_key keys[EPOCHS]; /* keys[0] makes cookies; keys[1] did so before */
	__u64 wall_offset_ns;		/* wall clock minus boot clock, so that machines agree on slots */
	__u64 previous_until_ns;	/* wall clock: keys[1] is accepted until then */
	__u16 mss4;			/* ours: the interfaces' smallest MTU minus 40 */
	__u16 mss6;			/* minus 60 */
	__u8 generic;			/* 1: generic XDP, in the kernel's receive path; 0: in the driver */
	__u8 track;			/* 1: connection tracking sees a handshake for what the kernel takes over */
	__u8 window_scaling;		/* 0: the kernel takes over no connection whose client scales its window */
	__u8 zero;
	SETTINGS
};

/* A connection: the client and one of the server addresses. IPv4 as ::ffff:a.b.c.d. */
struct flow_key {
	__u8 client[16];
	__be16 port;
	__u8 server; /* index into the settings' list of server addresses */
	__u8 zero;
};

enum flow_state {
	FLOW_FREE = 0,
	FLOW_SYN,     /* SYN-cache mode: SYN seen */
	FLOW_QUERY,   /* the query is with the server */
	FLOW_REPLIED, /* the reply is sent, not yet acknowledged as a whole */
	FLOW_IDLE,    /* the reply is acknowledged */
	FLOW_CLOSING, /* we sent our FIN */
	FLOW_SLOW,    /* the kernel shall adopt the connection from its query on */
	FLOW_KERNEL,  /* it has done so; the entry keeps the server's late datagrams from the client */
	FLOW_OPEN,    /* several queries are open; `opens` has them */
};

enum flow_flag {
	FLOW_TIMESTAMPS = 1,
	FLOW_SACK = 2,
	FLOW_EDNS_ADDED = 4,
	FLOW_CLIENT_FIN = 8,
	FLOW_QUERY_UNACKED = 16, /* a reply of several segments: the query is acknowledged after them */
	FLOW_AGAIN = 32,	 /* the server's next reply brings the missing part of this one */
	FLOW_AT_ONCE = 64,	 /* the query is acknowledged before its reply */
	FLOW_ACK_DUE = 128,	 /* tc ingress still has to do that when it sees the query's datagram */
};

/* 84 bytes with its key, which a hash map rounds up to 88: as large as the paper's entry. */
struct flow {
	__u32 seen_ms;	    /* boot clock, when its last packet came or left */
	__u32 query_seq;    /* SYN-cache mode, before the query: client's ISN + 1 */
	__u32 client_next;  /* what we expect and acknowledge next */
	__u32 server_seq;   /* first byte of the reply */
	__u32 acked;	    /* the client's last ACK */
	__u32 window;	    /* the client's, in bytes */
	__u32 tsval;	    /* ours, constant */
	__u32 client_tsval; /* to echo */
	__u32 stored;	    /* where the ring has its query, later its reply, in units */
	__u16 query_length; /* with the two bytes of length */
	__u16 reply_length; /* with the two bytes of length; 0 before the reply */
	__u16 mss;	    /* the client's */
	__be16 dns_id;
	__u8 state;
	__u8 flags;
	__u8 client_wscale; /* 15: none */
	__u8 repeats;	    /* of the same ACK; from FLOW_RECOVERING on: how often a segment was resent */
	__u32 asked_us;	    /* boot clock, when the server got the query */
	__u32 question;	    /* a keyed hash of its question */
	__u32 ahead;	    /* where the ring has what followed the query before the client had the reply */
	__u16 ahead_length; /* 0: nothing is kept */
	__u16 earlier;	    /* bytes that the client sent before the query; 65535: that many or more */
};
#define FLOW_RECOVERING 252 /* once, or a segment before it was */
#define FLOW_BLACK_HOLE 255 /* the segment at `acked` was sent again four times or more */

/* The most connections with several open queries. */
#define OPENS 4096
/* The most queries of one connection that are open at once; a power of two. */
#define OPEN_MAX 32
/* The most bytes of queries without a reply, and of what is kept behind them. The second is for a
 * burst that waits for its first replies: 200 queries at once are 8 to 12 KB. The kernel's TCP gets
 * both together, in one packet, and Linux makes none of more than about 16,060 bytes at tc ingress
 * (kernel 6.18, include/linux/skbuff.h SKB_MAX_ALLOC). */
#define OPEN_BYTES 2048
#define OPEN_AHEAD 12288

/* A query that waits for its reply, or whose reply the client has not acknowledged. */
struct open_query {
	__u32 seq;	    /* of its first byte */
	__u32 asked_us;	    /* boot clock, when the server got it */
	__u32 question;	    /* a keyed hash of its question */
	__u32 stored;	    /* where the ring has it, later its reply, in units */
	__u32 reply_seq;    /* of the reply's first byte */
	__u16 reply_length; /* with the two bytes of length; 0 before the reply */
	__u16 length;	    /* with the two bytes of length */
	__u16 offset;	    /* of this query in the segment that `stored` holds */
	__be16 dns_id;
	__u8 edns_added;
	__u8 zero[3];
};

enum opens_state {
	OPENS_SERVED,
	OPENS_LEAVING, /* the kernel's TCP gets the connection when the client has all that was given */
	OPENS_LEFT,    /* it has done so; late datagrams of the server are kept from the client */
};

/* What a connection in state OPEN has besides its entry: its queries, in the order in which they
 * came. XDP and egress change this under the lock. */
struct opens {
	struct bpf_spin_lock lock;
	struct flow_key key; /* whose this is: without the lock, another connection may get the element */
	__u32 given;	     /* our next sequence number, behind all replies until now */
	__u32 recover;	     /* `given` when a reply was resent; what was sent since is not missing yet */
	__u32 ack_sent;	     /* the highest acknowledgement that we sent */
	__u16 bytes;	     /* of all queries without a reply */
	__u8 first;	     /* index of the oldest in `query` */
	__u8 count;
	__u8 answered; /* how many of the oldest have replies */
	__u8 state;
	__u8 zero[2];
	struct open_query query[OPEN_MAX];
};

/* The ring holds queries and replies until newer ones need the room. It is filled in units. The
 * margin at its end has room for one more reply and, behind any place in it, one more copy of
 * the largest length. So nothing has to be split, and the verifier can bound every copy. */
#define RING_UNIT 64
#define RING_MARGIN 131072
struct ring_head {
	__u32 next; /* in units; it only grows */
};

/* What the path to a client can carry, as far as we know. */
struct path {
	__u64 until; /* boot clock, ns; after that it may carry more again */
	__u32 mtu;
	__u32 zero;
};

/* Token buckets, each stored as the time at which it will be full again (GCRA). */
struct source {
	__u64 syn_at;
	__u64 query_at;
	__u64 ring_at;
};

/* How long the server took: buckets of a quarter octave of microseconds, followed by the sum. */
#define LATENCIES 92
#define LATENCY_SUM LATENCIES

/* Each verdict has a counter. The user side shows them under these names in lower case. */
#define COUNTERS(X)                                                                                          \
	X(MALFORMED, "headers that make no sense; passed, the kernel drops them")                            \
	X(BAD_CHECKSUM, "segments with a wrong TCP checksum; dropped")                                       \
	X(SYN, "SYNs answered")                                                                              \
	X(SYN_LIMITED, "SYNs above the rate of their source; dropped")                                       \
	X(SYN_CACHE_FULL, "SYNs that found no room in the SYN cache and got a cookie alone")                 \
	X(HANDSHAKE_ACK, "ACKs of handshakes; dropped, as they say nothing new")                             \
	X(ACK, "ACKs on entries")                                                                            \
	X(PROBE, "keep-alive probes; acknowledged")                                                          \
	X(UNKNOWN_ACK, "ACKs of nothing known; dropped")                                                     \
	X(UNKNOWN_FIN, "FINs of nothing known; dropped, or answered with RST")                               \
	X(UNKNOWN_DATA, "data of nothing known; dropped, or answered with RST")                              \
	X(RESET, "RSTs that removed an entry")                                                               \
	X(ODD_FLAGS, "SYNs with other flags, segments without any; dropped")                                 \
	X(QUERY, "queries given to the server")                                                              \
	X(QUERY_LATER, "of them, queries after the first of their connection")                               \
	X(QUERY_PIPELINED, "of them, queries sent before the reply to the one before had come")                 \
	X(QUERY_AGAIN, "queries given to the server again, as they came again")                              \
	X(QUERY_WAITS, "queries that came again while the server had time to answer; dropped, or acknowledged again")               \
	X(QUERY_EARLIER, "queries that came again after a later one of their connection; acknowledged")      \
	X(QUERY_LIMITED, "queries of sources above their rate, or left unanswered over UDP; left to the kernel")\
	X(QUERY_NO_ROOM, "queries that found no room for an entry; dropped")                                 \
	X(STRANGE, "segments that fit no state of their entry; dropped")                                     \
	X(CLOSED, "connections closed in order")                                                             \
	X(EXPIRED, "entries removed after their time")                                                       \
	X(SYN_PASSED, "SYNs left to the kernel: the server has no UDP socket, or listens with MPTCP")         \
	X(SYN_ASIDE, "SYNs left to the kernel: of clients beyond the share that is served, or SYN cookies are off")   \
	X(KERNEL_HAS_IT, "segments of connections that the kernel has, or is to have; passed")               \
	X(TO_KERNEL_TRANSFER, "zone transfers left to the kernel")                                           \
	X(TO_KERNEL_KEEPALIVE, "queries with the edns-tcp-keepalive option, left to the kernel")              \
	X(TO_KERNEL_UNUSUAL, "first data that is not one whole query, left to the kernel")                   \
	X(TO_KERNEL_SECOND, "queries after the first that are not served here, left to the kernel")          \
	X(TO_KERNEL_PIPELINED, "second queries before the reply to the first; both left to the kernel")      \
	X(KEPT, "second queries kept until the client has the reply to the first")                           \
	X(TO_KERNEL_LARGE, "queries left to the kernel because their name had a large reply")                \
	X(TO_KERNEL_REPLY, "queries put to the kernel because the UDP reply was cut off after some records, or is too long to be sent here")          \
	X(TO_KERNEL_REFUSED, "queries put to the kernel because the UDP reply had no records: too long for UDP, or a rate limit, or BADCOOKIE") \
	X(TO_KERNEL_DOWN, "first queries left to the kernel because the server has no UDP socket")             \
	X(TO_KERNEL_SILENT, "queries left to the kernel because the server did not answer in time over UDP") \
	X(ADOPTED, "connections that the kernel took over")                                                  \
	X(ADOPT_FAILED, "connections that the kernel did not take: no listener, or no memory")               \
	X(ADOPT_LIMITED, "segments that wait because the server takes no more connections; dropped, and come again") \
	X(REPLY, "replies sent in one segment")                                                              \
	X(REPLY_SEGMENTED, "replies sent in several segments")                                               \
	X(REPLY_SEGMENTS, "segments of them")                                                                \
	X(REPLY_REPEATED, "replies that came again from the server, or after the kernel took over; dropped") \
	X(REPLY_FAILED, "replies that could not be sent: the kernel refused a helper's call")                \
	X(RESENT, "segments sent again from the ring")                                                       \
	X(RESEND_GONE, "queries sent again whose reply had left the ring; answered with RST")                \
	X(PATH_MTU, "messages of routers that made a connection's segments shorter")                         \
	X(BLACK_HOLE, "connections whose segments were made shorter as one got lost again and again")        \
	X(TRUNCATED, "UDP replies rewritten as truncated")                                                   \
	X(XDP_ERROR, "packets that a helper refused to change; dropped")

enum counter {
#define X(name, text) COUNT_##name,
	COUNTERS(X)
#undef X
	COUNT_END,
};

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A connection's key and entry, found from either direction, and the clocks and rates for entries.
 */
#pragma once

#include "maps.h"

static __always_inline struct settings *settings_now(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&settings, &key);
}

/* An IPv4 address as ::ffff:a.b.c.d. */
static __always_inline void address_map4(__be32 mapped[4], __be32 address)
{
	mapped[0] = 0;
	mapped[1] = 0;
	mapped[2] = bpf_htonl(0xffff);
	mapped[3] = address;
}

/* The key of the connection between a client and a server address; 0 if that is not one of our
 * addresses. */
static __always_inline int flow_key_of(struct flow_key *key, const __be32 client[4], __be16 client_port,
				       const __be32 server[4])
{
	__u8 *index = bpf_map_lookup_elem(&servers, server);

	if (!index)
		return 0;
	__builtin_memcpy(key->client, client, sizeof(key->client));
	key->port = client_port;
	key->server = *index;
	key->zero = 0;
	return 1;
}

/* FNV-1a in 32 bits. */
static __always_inline __u32 fnv1a(const __u8 *bytes, __u32 length)
{
	__u32 hash = 0x811c9dc5;

	for (__u32 i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * 0x01000193;
	return hash;
}

/* MurmurHash3's finalizer (Appleby 2011, smhasher, MurmurHash3.cpp, fmix32). The last bytes that
 * FNV-1a takes hardly reach its high bits; behind this, each bit depends on all of them. */
static __always_inline __u32 fmix32(__u32 hash)
{
	hash = (hash ^ hash >> 16) * 0x85ebca6b;
	hash = (hash ^ hash >> 13) * 0xc2b2ae35;
	return hash ^ hash >> 16;
}

/* Whether a client belongs to the share that is served. */
static __always_inline int client_served(const struct settings *s, const __be32 client[4])
{
	return s->share == ~0U || fmix32(fnv1a((const __u8 *)client, 16)) < s->share;
}

static __always_inline struct flow *flow_find(const struct flow_key *key)
{
	return bpf_map_lookup_elem(&flows, key);
}

/* Whether a is before b, modulo 2^32 (RFC 9293 section 3.4). */
static __always_inline int seq_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

/* Whether from <= seq <= to, modulo 2^32. */
static __always_inline int seq_within(__u32 seq, __u32 from, __u32 to)
{
	return seq - from <= to - from;
}

/* The number after the reply's last byte. */
static __always_inline __u32 flow_end(const struct flow *flow)
{
	return flow->server_seq + flow->reply_length;
}

/* How far before the reply's end the acknowledgement number of an old query's copy may be. The
 * probability that it is the first segment of a new connection is 2^-26. */
#define EARLIER_REPLIES (1 << 22)

/* Whether data at `seq` belongs to a query before that of the entry, and is therefore a copy. */
static __always_inline bool flow_is_earlier(const struct flow *flow, __u32 seq, __u32 ack)
{
	return flow->query_seq - seq - 1 < flow->earlier && flow_end(flow) + 1 - ack <= EARLIER_REPLIES;
}

/* How many bytes at a segment's front were received before, if the segment also has something
 * new. RFC 9293 section 3.10.7.4 cuts them off. The new part begins at client_next if the client
 * has the whole reply, otherwise at query_seq. */
static __always_inline __u32 flow_received(const struct flow *flow, __u32 seq, __u32 ack, __u32 length, bool fin)
{
	__u32 offset = ack - flow->server_seq, query = flow->query_seq - seq, next = flow->client_next - seq;
	__u8 state = flow->state;

	if (!length || state == FLOW_SYN || state == FLOW_OPEN || offset > flow->reply_length + 1U)
		return 0;
	if ((state == FLOW_CLOSING ? offset >= flow->reply_length :
				     (state == FLOW_REPLIED || state == FLOW_IDLE) && offset == flow->reply_length) &&
	    next - 1 < flow->client_next - flow->query_seq + flow->earlier && next < length + fin)
		return next;
	return query - 1 < flow->earlier && query < length ? query : 0;
}

/* The most bytes kept of what follows the query before the client has the reply. */
#define AHEAD_MAX 4096

/* Our windows (PROTOCOL.md, "The reply"): just below 64 KB either way. */
#define WSCALE_OURS 7
#define WSCALE_MAX 14 /* RFC 7323 section 2.3 */
#define WSCALE_NONE 15
#define WINDOW_PLAIN 65535
#define WINDOW_SCALED 511

static __always_inline __u16 flow_our_window(const struct flow *flow)
{
	return (flow->flags & FLOW_TIMESTAMPS) && flow->client_wscale != WSCALE_NONE ? WINDOW_SCALED : WINDOW_PLAIN;
}

/* The largest payload of one of our segments; `ours` is the interface's MSS. */
static __always_inline __u16 flow_segment_size(const struct flow *flow, __u16 ours)
{
	__u16 mss = flow->mss < ours ? flow->mss : ours;

	return flow->flags & FLOW_TIMESTAMPS ? mss - 12 : mss;
}

/* Takes the entry from QUERY into the next state. Returns false if another packet was faster: a
 * reply, or the client's next query. The four bytes around the state change as one word, because
 * another CPU may note the client's FIN at the same moment. */
static __always_inline bool flow_leave_query(struct flow *flow, __u8 state, __u8 fin_state, __u8 add_flags)
{
	union {
		struct {
			__u8 state, flags, client_wscale, repeats;
		};
		__u32 word;
	} old, new;
	__u32 *word = (__u32 *)&flow->state;

	for (int i = 0; i < 8; i++) {
		old.word = *(volatile __u32 *)word;
		if (old.state != FLOW_QUERY)
			return false;
		new.word = old.word;
		new.state = old.flags & FLOW_CLIENT_FIN ? fin_state : state;
		new.flags |= add_flags;
		new.repeats = 0;
		if (__sync_val_compare_and_swap(word, old.word, new.word) == old.word)
			return true;
	}
	return false;
}

/* Whether the kernel gets the connection from its query on. */
static __always_inline bool flow_left(const struct flow *flow)
{
	return flow->state == FLOW_SLOW || flow->state == FLOW_KERNEL;
}

/* GCRA (ITU-T I.371): whether one more packet conforms to the rate. If so, `at` advances by
 * `interval`. */
static __always_inline int rate_allows(__u64 *at, __u64 now, __u64 interval, __u64 burst)
{
	__u64 from = *at;

	if (from > now + burst)
		return 0;
	*at = (from > now ? from : now) + interval;
	return 1;
}

/* An IPv4 address, or 64 bits of an IPv6 address. */
static __always_inline struct source_key source_of(const __be32 client[4])
{
	int ipv4 = !client[0] && !client[1] && client[2] == bpf_htonl(0xffff);
	/* For IPv4, the second half of the mapped address. IPv6 uses no such prefix. */
	struct source_key key = { .prefix = *(const __u64 *)&client[ipv4 ? 2 : 0] };

	return key;
}

enum rate { RATE_SYN, RATE_QUERY, RATE_LATER, RATE_RING };

/* Whether one more of a source conforms to that rate. A separate function, because the stack of its
 * callers is full. */
__noinline int source_conforms(__u64 prefix, __u64 now, __u32 rate, __u64 interval, __u64 burst)
{
	struct source_key key = { .prefix = prefix };
	struct source *source = bpf_map_lookup_elem(&sources, &key), fresh = {};

	if (!source) {
		bpf_map_update_elem(&sources, &key, &fresh, BPF_NOEXIST);
		source = bpf_map_lookup_elem(&sources, &key);
		if (!source)
			return 1;
	}
	return rate_allows(rate == RATE_SYN  ? &source->syn_at :
			   rate == RATE_RING ? &source->ring_at :
					       &source->query_at, now, interval, burst);
}

/* Whether a client may send one more SYN or query. Later queries of a connection leave half of
 * the burst to new connections. */
static __always_inline int source_allows(const struct settings *s, const __be32 client[4], __u64 now, enum rate rate)
{
	__u64 interval = rate == RATE_SYN ? s->syn_interval_ns : s->query_interval_ns;
	__u64 burst = rate == RATE_SYN ? s->syn_burst_ns : rate == RATE_LATER ? s->query_burst_ns / 2 : s->query_burst_ns;

	return !interval || source_conforms(source_of(client).prefix, now, rate, interval, burst);
}

/* Notes that the server left a query of a client unanswered over UDP, as its rate limit does. After
 * about ten in a second, the client's queries go over TCP at once, for up to ten seconds. */
static __always_inline void source_met_silence(const __be32 client[4], __u64 now)
{
	__u64 second = 1000000000;

	source_conforms(source_of(client).prefix, now, RATE_QUERY, second / 10, 10 * second);
}

/* Whether a long reply of `bytes` bytes, or what is kept of a burst, may take room in the ring. Those
 * of one source fill at most an eighth of it a second, and as much at once, so that those of others
 * stay there. */
static __always_inline int source_may_fill(const struct settings *s, const __be32 client[4], __u64 now, __u32 bytes)
{
	__u64 second = 1000000000;

	return !s->query_interval_ns ||
	       source_conforms(source_of(client).prefix, now, RATE_RING, bytes * 8 * second / RING_SIZE, second);
}

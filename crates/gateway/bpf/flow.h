/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A connection's key and entry, found from either direction, and the clocks and rates that entries are kept by.
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

/* The key of the connection between a client and a server address; 0 if the address is none of ours. */
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

/* Our windows (PROTOCOL.md, "The reply"): just below 64 KB either way. */
#define WSCALE_OURS 7
#define WSCALE_NONE 15
#define WINDOW_PLAIN 65535
#define WINDOW_SCALED 511

static __always_inline __u16 flow_our_window(const struct flow *flow)
{
	return (flow->flags & FLOW_TIMESTAMPS) && flow->client_wscale != WSCALE_NONE ? WINDOW_SCALED : WINDOW_PLAIN;
}

/* The most payload of one of our segments; `ours` is the interface's MSS. */
static __always_inline __u16 flow_segment_size(const struct flow *flow, __u16 ours)
{
	__u16 mss = flow->mss < ours ? flow->mss : ours;

	return flow->flags & FLOW_TIMESTAMPS ? mss - 12 : mss;
}

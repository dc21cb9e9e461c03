/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The share of a source (PROTOCOL.md, "Shares"): which places its connections have.
 *
 * A place names a connection. It is free if nothing was put there, or if its connection has ended.
 * Whoever needs a place looks. So nobody counts down, and nothing waits for the daemon.
 */
#pragma once

#include "flow.h"

/* How many places are looked at. A share of at most this many places is known exactly. */
#define PLACES_LOOKED 64

enum share {
	SHARE_KERNEL, /* connections that the kernel's TCP took over */
	SHARE_OPEN,   /* connections with several open queries */
};

struct place_key {
	__u64 source;
	__u32 share;
	__u32 number;
};

struct place {
	struct flow_key key;
	__u8 server[16]; /* its address; IPv4 as ::ffff:a.b.c.d */
};

/* Sources' places. When the map is full, the least recently used one is removed. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct place_key);
	__type(value, struct place);
} places SEC(".maps");

/* Looks for a free place. */
struct looking {
	struct __sk_buff *ctx; /* tc only */
	struct place_key key;
	__u32 places;
	__u32 start;
	__u32 idle_ms;
	__u32 now_ms;
	__be16 port;
	bool found;
};

static __always_inline void looking_start(struct looking *l, const struct flow_key *key, enum share share, __u32 places)
{
	l->key.source = source_of((const __be32 *)key->client).prefix;
	l->key.share = share;
	l->places = places;
	l->start = bpf_get_prandom_u32();
}

/* Whether a socket has this connection and its server has not closed it. */
static __always_inline bool place_has_socket(struct __sk_buff *ctx, const struct place *place, __be16 port)
{
	const __be32 *client = (const __be32 *)place->key.client;
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *found;
	__u32 state;

	if (client[0] || client[1] || client[2] != bpf_htonl(0xffff)) {
		__builtin_memcpy(tuple.ipv6.saddr, client, 16);
		__builtin_memcpy(tuple.ipv6.daddr, place->server, 16);
		tuple.ipv6.sport = place->key.port;
		tuple.ipv6.dport = port;
		found = bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	} else {
		tuple.ipv4.saddr = client[3];
		tuple.ipv4.daddr = ((const __be32 *)place->server)[3];
		tuple.ipv4.sport = place->key.port;
		tuple.ipv4.dport = port;
		found = bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	}
	if (!found)
		return false;
	state = found->state;
	bpf_sk_release(found);
	return state == BPF_TCP_ESTABLISHED || state == BPF_TCP_SYN_RECV || state == BPF_TCP_NEW_SYN_RECV ||
	       state == BPF_TCP_CLOSE_WAIT;
}

static long look_kernel(__u32 index, struct looking *l)
{
	struct place *place;

	l->key.number = (l->start + index) % l->places;
	place = bpf_map_lookup_elem(&places, &l->key);
	if (place && place_has_socket(l->ctx, place, l->port))
		return 0;
	l->found = true;
	return 1;
}

/* Whether the source has all its places in the kernel's TCP. */
__noinline int share_kernel_full(struct __sk_buff *ctx, const struct flow_key *key)
{
	struct settings *s = settings_now();
	struct looking l = {};

	if (!s || !s->adoptions || !key)
		return 0;
	l.ctx = ctx;
	l.port = bpf_htons(s->port);
	looking_start(&l, key, SHARE_KERNEL, s->adoptions);
	bpf_loop(s->adoptions < PLACES_LOOKED ? s->adoptions : PLACES_LOOKED, look_kernel, &l, 0);
	return !l.found;
}

/* Notes a connection that the kernel's TCP took over. If none of a few places is free, the source
 * has about as many as it may, and the connection is not noted. */
#define PLACES_NOTED 4
__noinline int share_kernel_note(struct __sk_buff *ctx, const struct flow_key *key, const struct server_key *server)
{
	struct settings *s = settings_now();
	struct looking l = {};
	struct place place;

	if (!s || !s->adoptions || !key || !server)
		return 0;
	l.ctx = ctx;
	l.port = bpf_htons(s->port);
	looking_start(&l, key, SHARE_KERNEL, s->adoptions);
	bpf_loop(PLACES_NOTED, look_kernel, &l, 0);
	if (!l.found)
		return 0;
	place.key = *key;
	__builtin_memcpy(place.server, server->address, 16);
	bpf_map_update_elem(&places, &l.key, &place, BPF_ANY);
	return 1;
}

/* Whether a connection has open queries. If its client is gone, they are removed: a map without
 * free elements would stay full while no daemon sweeps. */
static __always_inline bool place_has_queries(const struct place *place, __u32 now_ms, __u32 idle_ms)
{
	struct flow *flow;
	__s32 unused;

	if (!bpf_map_lookup_elem(&opens, &place->key))
		return false;
	flow = flow_find(&place->key);
	if (flow && (flow->state == FLOW_OPEN || flow->state == FLOW_KERNEL)) {
		unused = now_ms - flow->seen_ms;
		if (unused < 0 || (__u32)unused < idle_ms)
			return true;
		bpf_map_delete_elem(&flows, &place->key);
	}
	bpf_map_delete_elem(&opens, &place->key);
	return false;
}

static long look_open(__u32 index, struct looking *l)
{
	struct place *place;

	l->key.number = (l->start + index) % l->places;
	place = bpf_map_lookup_elem(&places, &l->key);
	if (place && place_has_queries(place, l->now_ms, l->idle_ms))
		return 0;
	l->found = true;
	return 1;
}

/* How many of the connections with several open queries one source may have. */
#define SHARE_OPEN_PLACES (OPENS / 8)

/* Gives the connection of `place` one of its source's places for open queries. Returns 0 if all that
 * were looked at are taken. */
__noinline int share_open_take(const struct place *place, __u64 now)
{
	struct settings *s = settings_now();
	struct looking l = {};

	if (!s || !place)
		return 0;
	l.now_ms = now / 1000000;
	l.idle_ms = s->idle_ms;
	looking_start(&l, &place->key, SHARE_OPEN, SHARE_OPEN_PLACES);
	bpf_loop(PLACES_LOOKED, look_open, &l, 0);
	return l.found && !bpf_map_update_elem(&places, &l.key, place, BPF_ANY);
}

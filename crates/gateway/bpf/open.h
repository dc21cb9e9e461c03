/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Several open queries of one connection (PROTOCOL.md, "Several queries at once"): what XDP and both tc programs need.
 *
 * The queries stand in the order in which they came; replies come in any. A reply takes the next sequence numbers when it leaves. A
 * query goes when it has a reply and the client has acknowledged that, and all before it have gone.
 */
#pragma once

#include "flow.h"

static __always_inline struct opens *opens_find(const struct flow_key *key)
{
	return bpf_map_lookup_elem(&opens, key);
}

/* Whether these are still those of the connection; with the lock. */
static __always_inline bool opens_are(const struct opens *o, const struct flow_key *key)
{
	const __u32 *a = (const __u32 *)&o->key, *b = (const __u32 *)key;

	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4];
}

/* The query at a place of the circle. */
static __always_inline struct open_query *opens_place(struct opens *o, __u32 place)
{
	__u64 at = place;

	asm volatile("%0 &= %1" : "+r"(at) : "i"(OPEN_MAX - 1));
	return &o->query[at];
}

/* The n-th query from the oldest on. */
static __always_inline struct open_query *opens_at(struct opens *o, __u32 n)
{
	return opens_place(o, o->first + n);
}

/* Goes on to the first query without a reply. With the lock. */
static __always_inline void opens_advance(struct opens *o)
{
	for (int i = 0; i < OPEN_MAX && o->answered < o->count && opens_at(o, o->answered)->reply_length; i++)
		o->answered++;
}

/* What may be acknowledged while the client may lack some of what was given out: what has its reply, but for the last query, so that
 * the client always goes on asking with something. With the lock, after opens_advance. */
static __always_inline __u32 opens_acknowledged(struct opens *o, const struct flow *flow)
{
	if (o->answered < o->count)
		return opens_at(o, o->answered)->seq;
	return o->count ? opens_at(o, o->count - 1)->seq : flow->client_next;
}

static __always_inline void opens_tell(struct opens *o, __u32 ack)
{
	if (seq_before(o->told, ack))
		o->told = ack;
}

/* The entry's state alone, with its neighbours at once. */
static __always_inline void flow_become_idle(struct flow *flow)
{
	__sync_fetch_and_xor((__u32 *)&flow->state, FLOW_OPEN ^ FLOW_IDLE);
}

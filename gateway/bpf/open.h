/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Several open queries of one connection (PROTOCOL.md, "Several queries at once"): what XDP and
 * both tc programs need.
 *
 * The queries are stored in the order in which they came. Replies come in any order, and each takes
 * the next sequence numbers when it leaves. A query is removed when the client has acknowledged its
 * reply and all queries before it are removed.
 */
#pragma once

#include "flow.h"

static __always_inline struct opens *opens_find(const struct flow_key *key)
{
	return bpf_map_lookup_elem(&opens, key);
}

/* Whether these queries still belong to the connection. Needs the lock. */
static __always_inline bool opens_are(const struct opens *o, const struct flow_key *key)
{
	const __u32 *a = (const __u32 *)&o->key, *b = (const __u32 *)key;

	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4];
}

/* The query at a place of the circular buffer. */
static __always_inline struct open_query *opens_place(struct opens *o, __u32 place)
{
	__u64 at = place;

	asm volatile("%0 &= %1" : "+r"(at) : "i"(OPEN_MAX - 1));
	return &o->query[at];
}

/* The n-th query, counted from the oldest. */
static __always_inline struct open_query *opens_at(struct opens *o, __u32 n)
{
	return opens_place(o, o->first + n);
}

/* Advances to the first query without a reply. Needs the lock. */
static __always_inline void opens_advance(struct opens *o)
{
	for (int i = 0; i < OPEN_MAX && o->answered < o->count && opens_at(o, o->answered)->reply_length; i++)
		o->answered++;
}

/* What may be acknowledged while the client may lack some of the replies that were sent: all
 * queries before the first one without a reply. The last query is never acknowledged, so that the
 * client always has something to send again. Needs the lock, after opens_advance. */
static __always_inline __u32 opens_acknowledged(struct opens *o, const struct flow *flow)
{
	if (o->answered < o->count)
		return opens_at(o, o->answered)->seq;
	return o->count ? opens_at(o, o->count - 1)->seq : flow->client_next;
}

static __always_inline void opens_tell(struct opens *o, __u32 ack)
{
	if (seq_before(o->ack_sent, ack))
		o->ack_sent = ack;
}

/* Changes only the entry's state; the whole word is changed atomically. */
static __always_inline void flow_become_idle(struct flow *flow)
{
	__sync_fetch_and_xor((__u32 *)&flow->state, FLOW_OPEN ^ FLOW_IDLE);
}

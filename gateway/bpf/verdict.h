/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A client's segment on its way to a verdict: what its entry notes of it, and the answers to the
 * segment.
 */
#pragma once

#include "answer.h"
#include "open.h"
#include "syncache.h"

/* What happens to a segment. */
enum fate {
	FATE_PASS,     /* to the kernel, as it came */
	FATE_DROP,
	FATE_ANSWER,   /* the answer goes to the client */
	FATE_DATAGRAM, /* the query goes to the server */
	FATE_STRANGE,  /* it does not fit the state of its entry */
	FATE_NEXT,     /* the entry has changed its state, and the segment is looked at again */
	FATE_QUERIES,  /* several_take must look at its queries */
};

/* A segment on its way to a verdict. */
struct verdict {
	const struct settings *s;
	struct scratch *w;
	struct flow *flow; /* the connection's entry, or 0 */
	__u64 now;	   /* boot clock */
};

static __always_inline enum fate drop(enum counter which)
{
	count(which);
	return FATE_DROP;
}

static __always_inline enum fate pass(enum counter which)
{
	count(which);
	return FATE_PASS;
}

static __always_inline __u16 our_mss(const struct verdict *v)
{
	return v->w->in.ipv6 ? v->s->mss6 : v->s->mss4;
}

static __always_inline void flow_seen(struct verdict *v, struct flow *flow)
{
	flow->seen_ms = v->now / 1000000;
}

/* Notes the window, and the timestamp if it is later (RFC 7323 section 4.3). */
static __always_inline void flow_note_fields(const struct verdict *v, struct flow *flow)
{
	flow->window = (__u32)v->w->in.window << (flow->client_wscale < WSCALE_NONE ? flow->client_wscale : 0);
	if (flow->flags & FLOW_TIMESTAMPS && v->w->in.offer.timestamps && !seq_before(v->w->in.tsval, flow->client_tsval))
		flow->client_tsval = v->w->in.tsval;
}

static __always_inline void flow_note(struct verdict *v, struct flow *flow)
{
	flow_note_fields(v, flow);
	flow_seen(v, flow);
}

/* Sets or clears flags. The whole word is changed atomically, because egress may take the entry
 * out of QUERY at the same moment. */
static __always_inline void flow_set(struct flow *flow, __u8 flags)
{
	__sync_fetch_and_or((__u32 *)&flow->state, (__u32)flags << 8);
}

static __always_inline void flow_clear(struct flow *flow, __u8 flags)
{
	__sync_fetch_and_and((__u32 *)&flow->state, ~((__u32)flags << 8));
}

static __always_inline void flow_note_fin(struct flow *flow)
{
	if (!(flow->flags & FLOW_CLIENT_FIN))
		flow->client_next++;
	flow_set(flow, FLOW_CLIENT_FIN);
}

/* Removes the entry. */
static __always_inline void flow_remove(struct verdict *v)
{
	if (v->flow && v->flow->state == FLOW_SYN)
		syncache_leave(&v->w->key);
	if (v->flow && (v->flow->state == FLOW_OPEN || v->flow->state == FLOW_KERNEL))
		bpf_map_delete_elem(&opens, &v->w->key);
	bpf_map_delete_elem(&flows, &v->w->key);
}

/* Answers that depend only on the segment. */

static __always_inline enum fate answer_fin(struct verdict *v)
{
	v->w->answer.seq = v->w->in.ack;
	v->w->answer.ack = v->w->in.seq + 1;
	v->w->answer.flags = FLAG_FIN | FLAG_ACK;
	v->w->answer.window = WINDOW_PLAIN;
	if (v->w->in.offer.timestamps)
		answer_timestamps(&v->w->answer, v->w->in.tsecr, v->w->in.tsval);
	return FATE_ANSWER;
}

/* Whether a segment can be a keep-alive probe: at most one byte (RFC 9293 section 3.8.4). */
static __always_inline bool may_probe(const struct incoming *in)
{
	return in->length <= 1 && !(in->flags & FLAG_FIN);
}

/* Acknowledges a keep-alive probe of a client that has sent nothing since the handshake, in which
 * `offer` was agreed on. */
static __always_inline enum fate answer_probe(struct verdict *v, const struct offer *offer)
{
	v->w->answer.seq = v->w->in.ack;
	v->w->answer.ack = v->w->in.seq + 1;
	v->w->answer.flags = FLAG_ACK;
	v->w->answer.window = offer->wscale == WSCALE_NONE ? WINDOW_PLAIN : WINDOW_SCALED;
	if (offer->timestamps)
		answer_timestamps(&v->w->answer, v->w->in.tsecr, v->w->in.tsval);
	count(COUNT_PROBE);
	return FATE_ANSWER;
}

static __always_inline enum fate answer_reset(struct verdict *v)
{
	v->w->answer.seq = v->w->in.ack; /* RFC 9293 section 3.10.7.1 */
	v->w->answer.flags = FLAG_RST;
	return FATE_ANSWER;
}

/* Answers that depend on an entry. */

static __always_inline enum fate answer_from(struct verdict *v, const struct flow *flow, __u32 seq, __u32 ack)
{
	v->w->answer.seq = seq;
	v->w->answer.ack = ack;
	v->w->answer.flags = FLAG_ACK;
	v->w->answer.window = flow_our_window(flow);
	if (flow->flags & FLOW_TIMESTAMPS)
		answer_timestamps(&v->w->answer, flow->tsval, flow->client_tsval);
	return FATE_ANSWER;
}

/* Acknowledges everything that the client has sent. */
static __always_inline enum fate answer_ack(struct verdict *v, struct flow *flow)
{
	/* If this also acknowledges the client's FIN, nothing would show its loss. So it is sent
	 * as often as the client misses it. */
	if (flow->state != FLOW_CLOSING || !(flow->flags & FLOW_CLIENT_FIN))
		flow_clear(flow, FLOW_QUERY_UNACKED);
	return answer_from(v, flow, v->w->in.ack, flow->client_next);
}

/* The acknowledgement to send while the client may lack some of the reply. Usually it does not
 * cover the query, so that the client keeps repeating the query. If the query was acknowledged at
 * once, it covers everything but the client's FIN, which is acknowledged with ours. */
static __always_inline __u32 flow_acknowledged(const struct flow *flow)
{
	return flow->flags & FLOW_AT_ONCE ? flow->client_next - !!(flow->flags & FLOW_CLIENT_FIN) : flow->query_seq;
}

/* The reply's segment that begins at `offset`, which is at most the reply's length, if the ring
 * still has it. */
static __always_inline int answer_again(struct verdict *v, const struct flow *flow, __u32 offset)
{
	struct ring_head *head = ring_top();
	__u32 left = flow->reply_length - offset, size = flow_segment_size(flow, our_mss(v));

	if (!head || !ring_holds(head, flow->stored))
		return 0;
	answer_from(v, flow, flow->server_seq + offset,
		    flow->flags & FLOW_QUERY_UNACKED ? flow->query_seq : flow->client_next);
	if (left <= size) {
		size = left;
		if (left)
			v->w->answer.flags |= FLAG_PSH;
		if (flow->state == FLOW_CLOSING)
			v->w->answer.flags |= FLAG_FIN;
	}
	/* The client's FIN is only acknowledged together with ours, so that the client does not
	 * wait for that in vain. */
	if (flow->flags & FLOW_CLIENT_FIN && !(flow->flags & FLOW_QUERY_UNACKED) && !(v->w->answer.flags & FLAG_FIN))
		v->w->answer.ack--;
	v->w->answer.position = flow->stored;
	v->w->answer.offset = offset;
	v->w->answer.payload = size;
	count(COUNT_RESENT);
	return 1;
}

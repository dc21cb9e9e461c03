/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * XDP: segments of connections with several open queries. PROTOCOL.md, "Several queries at once".
 *
 * The functions here read acknowledgements, and send again what the client misses; several_take.h
 * takes the queries.
 *
 * A lock protects the queries, and no helper may be called while it is held. So each step has two
 * parts, and the second checks again whether the result of the first still holds. The functions are
 * separate, so that the verifier checks each of them once.
 */
#pragma once

#include "pmtu.h"
#include "several_take.h"

/* Why a segment is sent again. */
enum again {
	AGAIN_ASKED, /* the client asks for it */
	AGAIN_PART,  /* it has acknowledged a part */
	AGAIN_ICMP,  /* a router says that it was too long */
};

/* Sends the reply's segment from the client's acknowledgement on again. */
static __always_inline enum fate several_again(struct verdict *v, struct flow *flow, struct opens *o, enum again why)
{
	__u32 acked, ack = 0, stored = 0, offset = 0, left = 0, size = flow_segment_size(flow, our_mss(v));
	__u32 least = v->w->in.ipv6 ? 1220 : 1024;
	struct ring_head *head = ring_top();

	bpf_spin_lock(&o->lock);
	acked = flow->acked;
	if (opens_are(o, &v->w->key)) {
		for (int i = 0; i < OPEN_MAX && i < o->count; i++) {
			const struct open_query *q = opens_at(o, i);

			if (acked - q->reply_seq < q->reply_length) {
				stored = q->stored;
				offset = acked - q->reply_seq;
				left = q->reply_length - offset;
				break;
			}
		}
		opens_advance(o);
		ack = opens_acknowledged(o, flow);
		opens_tell(o, ack);
		if (why != AGAIN_PART)
			o->recover = o->given;
	}
	bpf_spin_unlock(&o->lock);
	if (!left)
		return drop(COUNT_STRANGE);
	if (!head || !ring_holds(head, stored)) {
		/* The client's next segment will have the sequence numbers for a RST. */
		if (why == AGAIN_ICMP)
			return FATE_PASS;
		flow_remove(v);
		count(COUNT_RESEND_GONE);
		return answer_reset(v);
	}
	/* It may be too long for the path without any router saying so, as in flow_missed. */
	if (flow->repeats < FLOW_RECOVERING)
		flow->repeats = FLOW_RECOVERING;
	else if (flow->repeats < FLOW_BLACK_HOLE)
		flow->repeats++;
	if (flow->repeats == FLOW_BLACK_HOLE && left > least && flow_shorten(flow, our_mss(v), least)) {
		count(COUNT_BLACK_HOLE);
		size = flow_segment_size(flow, our_mss(v));
	}
	answer_from(v, flow, acked, ack);
	if (left <= size) {
		size = left;
		v->w->answer.flags |= FLAG_PSH;
	}
	v->w->answer.position = stored;
	v->w->answer.offset = offset;
	v->w->answer.payload = size;
	count(COUNT_RESENT);
	return FATE_ANSWER;
}

/* Everything is answered and acknowledged: the entry has a single query again, the last one.
 * Needs the lock. */
static __always_inline void several_end(struct flow *flow, const struct opens *o, const struct open_query *last)
{
	flow->query_seq = last->seq;
	flow->query_length = last->length;
	flow->earlier = flow->earlier > last->length ? flow->earlier - last->length : 0;
	flow->dns_id = last->dns_id;
	flow->question = last->question;
	flow->stored = last->stored;
	flow->server_seq = o->given;
	flow->reply_length = 0;
}

/* Handles a segment on an OPEN entry, whose checksum is right. FATE_NEXT: the entry is now in
 * state IDLE. FATE_QUERIES: several_take must look at it. */
/* Long: the fields of an entry are read and written under one lock. */
__noinline int on_open(__u64 now)
{
	struct scratch *w = scratch_own();
	struct settings *s = settings_now();
	struct verdict v = { .s = s, .w = w, .now = now };
	struct flow *flow = w ? flow_find(&w->key) : 0;
	struct opens *o = w ? opens_find(&w->key) : 0;
	__u32 seq, ack, length, next, given, begin, asked = 0, left = 0, acknowledged = 0;
	bool fin, pure, probe, is_old, again = false, advanced = false, ended = false, known = false, leaving = false, held = false;

	if (!w || !s || !flow)
		return FATE_STRANGE;
	v.flow = flow;
	seq = w->in.seq;
	ack = w->in.ack;
	length = w->in.length;
	fin = w->in.flags & FLAG_FIN;
	pure = !length && !fin;
	next = flow->client_next + flow->ahead_length;
	begin = flow->query_seq - flow->earlier;
	/* It belongs to no connection, or is far outside this one's window. */
	if (!o || !seq_within(seq, begin, next + WINDOW_PLAIN))
		return FATE_STRANGE;
	probe = may_probe(&w->in) && seq == flow->client_next - 1;
	is_old = length && !probe && seq_before(seq, flow->client_next);

	bpf_spin_lock(&o->lock);
	given = o->given;
	if (opens_are(o, &w->key) && (ack - flow->acked <= given - flow->acked || flow->acked - ack <= EARLIER_REPLIES)) {
		known = true;
		if (ack != flow->acked && ack - flow->acked <= given - flow->acked) {
			flow->acked = ack;
			advanced = true;
			opens_advance(o);
			for (int i = 0; i < OPEN_MAX && o->answered; i++) {
				const struct open_query *q = opens_at(o, 0);
				__u32 earlier = flow->earlier + q->length;

				if (seq_before(ack, q->reply_seq + q->reply_length))
					break;
				flow->earlier = earlier < 0xffff ? earlier : 0xffff;
				flow->query_seq = q->seq + q->length;
				/* This also holds if it was leaving: there is nothing for the
				 * kernel's TCP until the client's next data. */
				if (o->count == 1 && !flow->ahead_length && o->state != OPENS_LEFT) {
					several_end(flow, o, q);
					ended = true;
				}
				o->first++;
				o->answered--;
				o->count--;
			}
			held = ended && o->ack_sent != flow->client_next;
		}
		left = given - flow->acked;
		leaving = o->state == OPENS_LEAVING;
		opens_advance(o);
		acknowledged = opens_acknowledged(o, flow);
		if (o->answered < o->count)
			asked = opens_at(o, o->answered)->asked_us;
		/* Each acknowledgement of a part shows the next hole in what was sent before the
		 * last hole was filled. */
		if (advanced) {
			again = flow->repeats >= FLOW_RECOVERING && left && seq_before(flow->acked, o->recover);
			flow->repeats = again ? FLOW_RECOVERING - 1 : 0;
		} else if (pure && !probe && left && ack == flow->acked && flow->repeats < FLOW_RECOVERING) {
			again = ++flow->repeats == 3;
		}
	}
	bpf_spin_unlock(&o->lock);
	if (!known)
		return FATE_STRANGE;
	flow_note(&v, flow);
	if (ended) {
		/* Nobody else changes it now, because no query is with the server. */
		flow->repeats = 0;
		if (held)
			flow_set(flow, FLOW_QUERY_UNACKED);
		flow_become_idle(flow);
		bpf_map_delete_elem(&opens, &w->key);
		return FATE_NEXT;
	}
	/* A probe, too, hands the connection over if nothing else is in the way. */
	if (probe && (!leaving || left)) {
		count(COUNT_PROBE);
		return answer_from(&v, flow, given, acknowledged);
	}
	/* Data that comes again: the client misses some of what was given out, or the server
	 * does not answer. */
	if (is_old) {
		if (left)
			return several_again(&v, flow, o, AGAIN_ASKED);
		if (!leaving && (__u32)(now / 1000) - asked < s->patience_us)
			return drop(COUNT_QUERY_WAITS);
		if (!leaving) {
			bpf_spin_lock(&o->lock);
			if (o->state == OPENS_SERVED)
				o->state = OPENS_LEAVING;
			bpf_spin_unlock(&o->lock);
			source_met_silence(w->in.who.client, now);
			count(COUNT_TO_KERNEL_SILENT);
		}
		return FATE_PASS;
	}
	/* Data behind a gap: the client sends it again together with the missing data. */
	if (!pure && !probe && seq != next && seq != flow->client_next)
		return drop(COUNT_STRANGE);
	/* This also holds before kept_end: if the client's acknowledgement was lost, the client
	 * sends the kept data again. */
	if (leaving && !left)
		return FATE_PASS;
	if (pure) {
		count(COUNT_ACK);
		return again ? several_again(&v, flow, o, advanced ? AGAIN_PART : AGAIN_ASKED) : FATE_DROP;
	}
	/* The client sends its FIN again, when all queries before it are answered. */
	if (!length)
		return drop(COUNT_ACK);
	if (seq != next)
		return drop(COUNT_KEPT); /* it is kept already */
	return FATE_QUERIES;
}

/* A router says that a segment of what was given out is too long for the path. */
__noinline int several_too_big(__u64 now, __u32 mtu)
{
	struct scratch *w = scratch_own();
	struct settings *s = settings_now();
	struct verdict v = { .s = s, .w = w, .now = now };
	struct flow *flow = w ? flow_find(&w->key) : 0;
	struct opens *o = w ? opens_find(&w->key) : 0;

	if (!w || !s || !flow || !o)
		return FATE_PASS;
	v.flow = flow;
	if (w->in.seq - flow->acked >= *(volatile __u32 *)&o->given - flow->acked ||
	    !flow_shorten(flow, our_mss(&v), mtu - (w->in.ipv6 ? HEADERS6 : HEADERS4)))
		return FATE_PASS;
	count(COUNT_PATH_MTU);
	path_learn(w->in.who.client, mtu, now);
	flow_seen(&v, flow);
	return several_again(&v, flow, o, AGAIN_ICMP);
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * XDP: segments of connections with several open queries. PROTOCOL.md, "Several queries at once".
 *
 * A lock protects the queries, and no helper may be called while it is held. So each step has two
 * parts, and the second checks again whether the result of the first still holds. The functions are
 * separate, so that the verifier checks each of them once.
 */
#pragma once

#include "beside.h"
#include "open.h"
#include "pmtu.h"
#include "verdict.h"

/* A map value without its lock can only be copied; this has the size of the whole value. */
struct opens_image {
	__u8 bytes[sizeof(struct opens)];
};

/* Where a new value is put together and queries are read. */
struct several_room {
	struct opens_image image;
	struct query_room room;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct several_room);
} several_room SEC(".maps");

static __always_inline struct several_room *several_own(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&several_room, &key);
}

/* Whether this is data behind a query whose reply the client does not have yet, and may be
 * served. */
static __always_inline bool several_may_begin(const struct verdict *v, const struct flow *flow)
{
	__u32 offset = v->w->in.ack - flow->server_seq;

	if (!v->s->several_queries || v->s->close_fin || !v->w->in.length || v->w->in.seq != flow->client_next ||
	    flow->flags & (FLOW_CLIENT_FIN | FLOW_AT_ONCE))
		return false;
	return flow->state == FLOW_QUERY ? !offset :
	       flow->state == FLOW_REPLIED ? !flow->ahead_length && offset < flow->reply_length : false;
}

/* Turns the entry into one with several open queries, of which its own is the first. With
 * `answered`, the client has the reply to that, and all queries are still to come. Returns 0 if
 * there is no room, or if the reply came at this moment. */
__noinline int several_begin(__u64 now, int answered)
{
	struct scratch *w = scratch_own();
	struct several_room *own = several_own();
	struct flow *flow = w ? flow_find(&w->key) : 0;
	struct opens *o;
	struct open_query *q;
	__u32 *word, old, new;
	__u8 state;

	if (!w || !own || !flow)
		return 0;
	state = flow->state;
	o = (struct opens *)&own->image;
	__builtin_memset(o, 0, __builtin_offsetof(struct opens, query));
	o->key = w->key;
	o->told = flow->query_seq;
	o->count = !answered;
	q = &o->query[0];
	q->seq = flow->query_seq;
	q->asked_us = flow->asked_us;
	q->question = flow->question;
	q->stored = flow->stored;
	q->length = flow->query_length;
	q->offset = 0;
	q->dns_id = flow->dns_id;
	q->edns_added = !!(flow->flags & FLOW_EDNS_ADDED);
	q->reply_seq = flow->server_seq;
	q->reply_length = 0;
	o->given = flow->server_seq;
	if (state == FLOW_REPLIED || answered) {
		q->reply_length = flow->reply_length;
		o->given += flow->reply_length;
		if (!(flow->flags & FLOW_QUERY_UNACKED))
			o->told = flow->client_next;
	} else {
		o->bytes = flow->query_length;
	}
	/* Removes what an entry left that was forgotten. */
	bpf_map_delete_elem(&opens, &w->key);
	if (bpf_map_update_elem(&opens, &w->key, &own->image, BPF_NOEXIST))
		return 0;
	/* Atomically, because egress may send the reply at the same moment. */
	word = (__u32 *)&flow->state;
	old = *(volatile __u32 *)word;
	/* Keeps state, flags and window scale; clears the repeats. */
	new = FLOW_OPEN | (old & 0x00ffff00 & ~((__u32)(FLOW_AGAIN | FLOW_QUERY_UNACKED) << 8));
	if ((old & 0xff) != state || __sync_val_compare_and_swap(word, old, new) != old) {
		bpf_map_delete_elem(&opens, &w->key);
		return 0;
	}
	flow->seen_ms = now / 1000000;
	if (answered) {
		__u32 earlier = flow->earlier + flow->query_length;

		flow->acked = o->given;
		flow->query_seq = flow->client_next;
		flow->earlier = earlier < 0xffff ? earlier : 0xffff;
	}
	return 1;
}

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
		/* The client's next segment has the numbers for a RST. */
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

/* Goes through a segment's queries, one after the other. */
struct taking {
	__u64 now;
	__u32 stored; /* the segment in the ring */
	__u32 at;
	__u32 length;
	__u32 taken;
	__u32 seq; /* of the segment */
	enum counter why;
};

static __always_inline bool taking_refused(struct taking *t, enum counter why)
{
	t->why = why;
	return true;
}

static long take_one(__u32 index, struct taking *t)
{
	struct scratch *w = scratch_own();
	struct several_room *own = several_own();
	struct settings *s = settings_now();
	struct flow *flow = w ? flow_find(&w->key) : 0;
	struct opens *o = w ? opens_find(&w->key) : 0;
	struct query query = {};
	__u32 at = t->at, left = t->length - at, length;
	struct open_query *q;
	bool took = false, later = false, several = false;
	__u64 question;

	t->why = COUNT_TO_KERNEL_PIPELINED;
	if (!w || !own || !s || !flow || !o || !WITHIN(at, 0, QUERY_MAX) || !WITHIN(left, QUERY_MIN, QUERY_MAX))
		return 1;
	if (bpf_probe_read_kernel(own->room.bytes, left, &w->bytes[SCRATCH_PAYLOAD + at]))
		return 1;
	length = DNS_PREFIX + dns_u16(own->room.bytes);
	if (length > left || !query_read(&own->room, length, &query))
		return 1;
	if (s->axfr_detect && query.transfer)
		return taking_refused(t, COUNT_TO_KERNEL_TRANSFER);
	if (query.keepalive)
		return taking_refused(t, COUNT_TO_KERNEL_KEEPALIVE);
	question = question_hash(&s->keys[0], &own->room, query.question);
	if (large_name(s, question, t->now))
		return taking_refused(t, COUNT_TO_KERNEL_LARGE);
	if (!source_allows(s, w->in.who.client, t->now, RATE_LATER))
		return 1;

	bpf_spin_lock(&o->lock);
	if (opens_are(o, &w->key) && o->state == OPENS_SERVED && o->count < OPEN_MAX && o->bytes + length <= OPEN_BYTES &&
	    flow->client_next == t->seq + at) {
		took = true;
		/* Nobody could tell their replies apart. */
		for (int i = 0; i < OPEN_MAX && i < o->count; i++) {
			q = opens_at(o, i);
			if (q->dns_id == query.id && q->question == (__u32)question && !q->reply_length)
				took = false;
		}
	}
	if (took) {
		q = opens_at(o, o->count);
		q->seq = t->seq + at;
		q->asked_us = t->now / 1000;
		q->question = question;
		q->stored = t->stored;
		q->reply_length = 0;
		q->length = length;
		q->offset = at;
		q->dns_id = query.id;
		q->edns_added = !query.opt;
		several = o->count;
		later = several || flow->earlier;
		o->count++;
		o->bytes += length;
		flow->client_next += length;
	}
	bpf_spin_unlock(&o->lock);
	if (!took)
		return 1;
	if (!t->taken)
		w->query = query;
	t->taken++;
	t->at = at + length;
	count(COUNT_QUERY);
	if (later)
		count(COUNT_QUERY_LATER);
	if (several)
		count(COUNT_QUERY_PIPELINED);
	return t->at >= t->length;
}

/* Keeps what is not served in the ring until the kernel's TCP gets the connection. */
static __always_inline enum fate several_keep(struct verdict *v, struct flow *flow, struct opens *o, __u32 at)
{
	__u32 before = flow->ahead_length, old = flow->ahead, length = v->w->in.length - at, position;
	struct ring_head *head = ring_top();
	__u8 *bytes = ring_bytes();

	if (!head || !bytes || !WITHIN(at, 0, QUERY_MAX) || !WITHIN(length, 1, QUERY_MAX) || before + length > OPEN_AHEAD ||
	    !WITHIN(before, 0, OPEN_AHEAD))
		return drop(COUNT_STRANGE); /* it comes again */
	position = ring_take(head, before + length);
	if (before && (bpf_probe_read_kernel(bytes + ring_offset(position), before, bytes + ring_offset(old)) ||
		       !ring_holds(head, old)))
		return drop(COUNT_STRANGE);
	if (bpf_probe_read_kernel(bytes + ring_offset(position) + before, length, &v->w->bytes[SCRATCH_PAYLOAD + at]))
		return drop(COUNT_STRANGE);
	flow->ahead = position;
	flow->ahead_length = before + length;
	return drop(COUNT_KEPT);
}

/* None of the queries is served: restores the entry. */
static __always_inline void several_undo(struct verdict *v, struct flow *flow)
{
	if (!flow->query_length) {
		flow_remove(v);
		return;
	}
	flow->query_seq -= flow->query_length;
	flow->earlier = flow->earlier > flow->query_length ? flow->earlier - flow->query_length : 0;
	flow_become_idle(flow);
	bpf_map_delete_elem(&opens, &v->w->key);
}

/* Handles the next data of the client. */
__noinline int several_take(struct xdp_md *ctx, __u64 now)
{
	struct scratch *w = scratch_own();
	struct settings *s = settings_now();
	struct verdict v = { .s = s, .w = w, .now = now };
	struct flow *flow = w ? flow_find(&w->key) : 0;
	struct opens *o = w ? opens_find(&w->key) : 0;
	struct taking t = { .now = now, .why = COUNT_TO_KERNEL_PIPELINED };
	struct ring_head *head = ring_top();
	__u8 *bytes = ring_bytes();
	__u32 length;
	bool leave = false;

	if (!w || !s || !flow || !o || !head || !bytes)
		return FATE_DROP;
	v.flow = flow;
	length = w->in.length;
	if (o->state == OPENS_SERVED && WITHIN(length, 1, QUERY_MAX) && beside(ctx, 1) == BESIDE_SERVER) {
		t.seq = w->in.seq;
		t.length = length;
		t.stored = ring_take(head, length);
		if (bpf_probe_read_kernel(bytes + ring_offset(t.stored), length, scratch_query(w)))
			return FATE_DROP;
		bpf_loop(OPEN_MAX, take_one, &t, 0);
	}
	if (t.taken) {
		w->split.mark = SPLIT_MARK;
		w->split.position = t.stored;
		w->split.payload = t.at;
		w->split.count = t.taken;
	}
	if (!t.taken && !o->count) {
		several_undo(&v, flow);
		count(t.why == COUNT_TO_KERNEL_PIPELINED ? COUNT_TO_KERNEL_SECOND : t.why);
		return FATE_PASS;
	}
	if (!t.taken || t.at < length) {
		bpf_spin_lock(&o->lock);
		if (o->state == OPENS_SERVED)
			leave = o->state = OPENS_LEAVING;
		bpf_spin_unlock(&o->lock);
		if (leave)
			count(t.why);
		/* The client has everything that was given out, so the kernel's TCP gets what
		 * waits, and this segment behind it. */
		if (!t.taken && flow->acked == *(volatile __u32 *)&o->given)
			return FATE_PASS;
		several_keep(&v, flow, o, t.taken ? t.at : 0);
	}
	if (!t.taken)
		return FATE_DROP;
	w->in.length = DNS_PREFIX + dns_u16(scratch_query(w)->bytes);
	return FATE_DATAGRAM;
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
__noinline int on_open(__u64 now)
{
	struct scratch *w = scratch_own();
	struct settings *s = settings_now();
	struct verdict v = { .s = s, .w = w, .now = now };
	struct flow *flow = w ? flow_find(&w->key) : 0;
	struct opens *o = w ? opens_find(&w->key) : 0;
	__u32 seq, ack, length, next, given, begin, asked = 0, left = 0;
	bool fin, pure, is_old, again = false, advanced = false, ended = false, known = false, leaving = false, held = false;

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
	/* It belongs to nobody, or is far from the connection's place. */
	if (!o || !seq_within(seq, begin, next + WINDOW_PLAIN))
		return FATE_STRANGE;
	is_old = length && seq_before(seq, flow->client_next);

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
				/* Also if it was leaving: the kernel's TCP has nothing to get
				 * until the client's next data. */
				if (o->count == 1 && !flow->ahead_length && o->state != OPENS_LEFT) {
					several_end(flow, o, q);
					ended = true;
				}
				o->first++;
				o->answered--;
				o->count--;
			}
			held = ended && o->told != flow->client_next;
		}
		left = given - flow->acked;
		leaving = o->state == OPENS_LEAVING;
		opens_advance(o);
		if (o->answered < o->count)
			asked = opens_at(o, o->answered)->asked_us;
		/* Each acknowledgement of a part shows the next hole in what was sent before the
		 * last hole was filled. */
		if (advanced) {
			again = flow->repeats >= FLOW_RECOVERING && left && seq_before(flow->acked, o->recover);
			flow->repeats = again ? FLOW_RECOVERING - 1 : 0;
		} else if (pure && left && ack == flow->acked && flow->repeats < FLOW_RECOVERING) {
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
			count(COUNT_TO_KERNEL_SILENT);
		}
		return FATE_PASS;
	}
	/* Data behind a gap: the client sends it again with what is missing. */
	if (!pure && seq != next && seq != flow->client_next)
		return drop(COUNT_STRANGE);
	/* Not only at kept_end: if the client's acknowledgement was lost, it sends what is kept
	 * again. */
	if (leaving && !left)
		return FATE_PASS;
	if (pure) {
		count(COUNT_ACK);
		return again ? several_again(&v, flow, o, advanced ? AGAIN_PART : AGAIN_ASKED) : FATE_DROP;
	}
	/* A FIN comes again when everything that was asked before is answered. */
	if (!length)
		return drop(COUNT_ACK);
	if (seq != next)
		return drop(COUNT_KEPT); /* it is kept already */
	if (leaving)
		return several_keep(&v, flow, o, 0);
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

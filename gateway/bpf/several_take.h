/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * XDP: the queries that a client sends before it has the replies to earlier ones. PROTOCOL.md,
 * "Several queries at once".
 *
 * An entry becomes one with several open queries, takes the queries of each further segment, and
 * keeps what is left for the kernel's TCP. For the lock, see several.h.
 */
#pragma once

#include "beside.h"
#include "share.h"
#include "verdict.h"

/* A map value without its lock can only be copied; this has the size of the whole value. */
struct opens_image {
	__u8 bytes[sizeof(struct opens)];
};

/* Where a new value is put together and queries are read. */
struct several_room {
	struct opens_image image;
	struct query_room room;
	struct place place;
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

/* Whether this is data behind a query whose reply the client does not have yet, and the data may be
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
	o->ack_sent = flow->query_seq;
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
			o->ack_sent = flow->client_next;
	} else {
		o->bytes = flow->query_length;
	}
	/* Removes the queries of an entry that the full map has forgotten. */
	bpf_map_delete_elem(&opens, &w->key);
	own->place.key = w->key;
	if (!share_open_take(&own->place, now) || bpf_map_update_elem(&opens, &w->key, &own->image, BPF_NOEXIST))
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

/* The room that so many kept bytes have in the ring. More bytes find room behind them there until
 * it is full, so a client that sends byte for byte does not fill the ring with copies. */
static __always_inline __u32 keep_room(__u32 length)
{
	return length <= 2048 ? 2048 : length <= 6144 ? 6144 : OPEN_AHEAD;
}

/* Keeps what is not served in the ring until the kernel's TCP gets the connection. */
static __always_inline enum fate several_keep(struct xdp_md *ctx, struct verdict *v, struct flow *flow, __u32 at)
{
	const struct incoming *in = &v->w->in;
	__u32 before = flow->ahead_length, position = flow->ahead, length = in->length - at, end = before + length, room;
	struct ring_head *head = ring_top();
	__u8 *bytes = ring_bytes();

	if (!head || !bytes || !WITHIN(at, 0, QUERY_MAX) || !WITHIN(length, 1, OPEN_AHEAD) || !WITHIN(before, 0, OPEN_AHEAD) ||
	    !WITHIN(end, 1, OPEN_AHEAD))
		return drop(COUNT_STRANGE); /* it comes again */
	if (!before || end > keep_room(before)) {
		room = keep_room(end);
		/* tc ingress will copy it twice. */
		if (!source_may_fill(v->s, in->who.client, v->now, 3 * room))
			return drop(COUNT_STRANGE);
		position = ring_take(head, room);
		if (before && bpf_probe_read_kernel(bytes + ring_offset(position), before, bytes + ring_offset(flow->ahead)))
			return drop(COUNT_STRANGE);
	}
	if (before && !ring_holds(head, flow->ahead))
		return drop(COUNT_STRANGE);
	if (bpf_xdp_load_bytes(ctx, in->transport + in->header + in->trimmed + at, bytes + ring_offset(position) + before, length))
		return drop(COUNT_STRANGE);
	flow->ahead = position;
	flow->ahead_length = end;
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
	if (!t.taken && !o->count && !flow->ahead_length) {
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
		several_keep(ctx, &v, flow, t.taken ? t.at : 0);
	}
	if (!t.taken)
		return FATE_DROP;
	w->in.length = DNS_PREFIX + dns_u16(scratch_query(w)->bytes);
	return FATE_DATAGRAM;
}

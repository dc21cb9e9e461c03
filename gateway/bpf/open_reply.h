/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc egress: replies of connections with several open queries. PROTOCOL.md, "Several queries at
 * once".
 *
 * A reply must be in the ring before it gets its sequence numbers, because XDP may send it again
 * from then on.
 */
#pragma once

#include "open.h"

/* The datagram is not a reply of this connection. */
#define OPEN_OTHER (-2)

/* Turns the packet that held the reply into the client's ACK of everything it sent, on its way
 * in. tc ingress then gives the connection to the kernel's TCP. */
static __always_inline int open_inject(struct __sk_buff *ctx, const struct settings *s, const struct datagram *d, const struct flow *flow)
{
	struct sending o = {};
	__u8 mac[12];
	bool scaled = flow->client_wscale < WSCALE_NONE;

	segment_addresses(&o, d->v6, (const __be32 *)d->gather.client, (const __be32 *)d->from.address);
	segment_ports(&o, d->port, bpf_htons(s->port), flow->flags & FLOW_TIMESTAMPS, flow->client_tsval, flow->tsval);
	o.h.tcp.seq = bpf_htonl(flow->client_next + flow->ahead_length);
	o.h.tcp.ack = bpf_htonl(flow->acked);
	o.h.tcp.flags = FLAG_ACK;
	o.h.tcp.window = bpf_htons(scaled ? flow->window >> flow->client_wscale : flow->window);
	if (bpf_skb_load_bytes(ctx, 0, mac, 12) || segment_room(ctx, &o, 0) || segment_headers(ctx, &o, 0, 0) ||
	    bpf_skb_store_bytes(ctx, 0, mac + 6, 6, 0) || bpf_skb_store_bytes(ctx, 6, mac, 6, 0)) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	return bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
}

/* Sends the reply to one of several open queries. A separate function, so that the verifier
 * checks it once. */
/* Long: the fields of an entry are read and written under one lock. */
__noinline int open_reply(struct __sk_buff *ctx, const struct datagram *d)
{
	struct settings *s = settings_now();
	struct ring_head *head = ring_top();
	__u8 *ring = ring_bytes(), place = 0;
	struct flow_key key = {};
	struct sending out = {};
	__u32 query_seq = 0, query_length = 0, query_stored = 0, query_offset = 0, asked = 0;
	__u32 length, position, offset, seq = 0, ack = 0;
	bool found = false, again = false, left = false, given = false, inject = false, added = false;
	enum telling tells = TELLS_ANSWER;
	enum summing sum;
	struct flow *flow;
	struct opens *o;
	__u64 now;

	if (!d || !s || !head || !ring)
		return OPEN_OTHER;
	datagram_key(d, &key);
	flow = flow_find(&key);
	o = opens_find(&key);
	if (!flow || !o || !(d->dns_flags & bpf_htons(DNS_QR)))
		return OPEN_OTHER;

	bpf_spin_lock(&o->lock);
	if (opens_are(o, &key)) {
		left = o->state == OPENS_LEFT;
		opens_advance(o);
		for (__u32 i = 0; i < OPEN_MAX && i < o->count; i++) {
			const struct open_query *q = opens_at(o, i);

			if (q->dns_id != d->dns_id || !question_is(d, q->question))
				continue;
			found = true;
			/* The server's second reply to this query, unless the same question was
			 * asked again. */
			again = q->reply_length;
			if (again)
				continue;
			place = o->first + i;
			query_seq = q->seq;
			query_length = q->length;
			query_stored = q->stored;
			query_offset = q->offset;
			added = q->edns_added;
			asked = q->asked_us;
			break;
		}
	}
	bpf_spin_unlock(&o->lock);
	if (!found)
		return OPEN_OTHER;
	if (left || again) {
		gather_drop(d);
		count(COUNT_REPLY_REPEATED);
		return swallow();
	}

	length = d->length - UDP_HEADER;
	tells = reply_tells(s, d, length, added);
	sum = summing(ctx, d->l4);
	if (tells != TELLS_ANSWER || d->more || sum == SUM_ODD || too_large(s, flow, d->v6, length, added) ||
	    length + DNS_PREFIX > segment_limit(s, flow, d->v6) + (added ? DNS_OPT : 0) || !WITHIN(length, DNS_HEADER, SUM_MAX))
		goto refuse;
	position = ring_take(head, DNS_PREFIX + length);
	offset = ring_offset(position);
	if (bpf_skb_load_bytes(ctx, d->l4 + UDP_HEADER, ring + offset + DNS_PREFIX, length)) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	length = message_end(ring, offset, length, added);
	if (!length)
		goto refuse;
	now = bpf_ktime_get_boot_ns();

	bpf_spin_lock(&o->lock);
	if (opens_are(o, &key) && o->state != OPENS_LEFT) {
		struct open_query *q = opens_place(o, place);

		found = q->seq == query_seq && !q->reply_length;
		/* The client's window is full. The kernel's TCP can wait for room. */
		if (found && o->given + length - flow->acked <= flow->window) {
			given = true;
			seq = o->given;
			q->stored = position;
			q->reply_seq = seq;
			q->reply_length = length;
			o->given += length;
			o->bytes -= q->length;
			opens_advance(o);
			/* If nothing else is under way, it may acknowledge everything: the same segment
			 * brings the reply and the acknowledgement. */
			if (seq == flow->acked && o->answered == o->count)
				ack = flow->client_next;
			else
				ack = opens_acknowledged(o, flow);
			opens_tell(o, ack);
			flow->seen_ms = now / 1000000;
		}
	} else {
		found = false;
	}
	bpf_spin_unlock(&o->lock);
	if (!found) {
		count(COUNT_REPLY_REPEATED);
		return swallow();
	}
	if (!given)
		goto refuse;

	segment_addresses(&out, d->v6, (const __be32 *)d->from.address, (const __be32 *)d->gather.client);
	segment_ports(&out, bpf_htons(s->port), d->port, flow->flags & FLOW_TIMESTAMPS, flow->tsval, flow->client_tsval);
	out.h.tcp.window = bpf_htons(flow_our_window(flow));
	out.h.tcp.flags = FLAG_ACK | FLAG_PSH;
	out.h.tcp.seq = bpf_htonl(seq);
	out.h.tcp.ack = bpf_htonl(ack);
	out.partial = sum == SUM_PARTIAL;
	if (!WITHIN(length, 1, SUM_MAX) || segment_room(ctx, &out, length) || segment_write(ctx, &out, ring, offset, length) ||
	    !ring_holds(head, position)) {
		count(COUNT_REPLY_FAILED); /* the client asks again, and the ring has it */
		return swallow();
	}
	count(COUNT_REPLY);
	latency_note((__u32)(now / 1000) - asked);
	return TC_ACT_UNSPEC;

refuse:
	/* The kernel's TCP has to answer the query, once the client has everything that was
	 * given out. */
	gather_drop(d);
	bpf_spin_lock(&o->lock);
	if (opens_are(o, &key) && o->state != OPENS_LEFT) {
		o->state = OPENS_LEAVING;
		inject = flow->acked == o->given;
	}
	bpf_spin_unlock(&o->lock);
	count(tells == TELLS_NOTHING ? COUNT_TO_KERNEL_REFUSED : COUNT_TO_KERNEL_REPLY);
	if (tells == TELLS_LARGE && WITHIN(query_length, 1, QUERY_MAX) && WITHIN(query_offset, 0, QUERY_MAX) &&
	    ring_holds(head, query_stored))
		large_name_add(s, ring + ring_offset(query_stored) + query_offset, query_length, bpf_ktime_get_boot_ns());
	return inject ? open_inject(ctx, s, d, flow) : swallow();
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc egress: the server's datagrams become segments. This runs in the server's own send call, after
 * routing, the packet filter and fragmentation. What it sends passes no further rule.
 *
 * Before working on this file read datagram.h, question.h and reply.h, and PROTOCOL.md, "The
 * reply".
 */
#pragma once

#include "datagram.h"
#include "truncate.h"
#include "reply.h"
#include "question.h"
#include "open_reply.h"

/* Handles the first or a later fragment of a reply. */
static __always_inline int gather_first(struct __sk_buff *ctx, const struct datagram *d, const struct flow_key *key, __u8 *ring,
					struct ring_head *head)
{
	struct gathering g = {.flow = *key, .total = d->length, .received = d->bytes};
	__u32 bytes = d->bytes - UDP_HEADER;

	g.position = ring_take(head, 2 + d->length);
	if (!WITHIN(bytes, 1, 65535) ||
	    bpf_skb_load_bytes(ctx, d->l4 + UDP_HEADER, ring + ring_offset(g.position) + 2, bytes) ||
	    bpf_map_update_elem(&gathered, &d->gather, &g, BPF_ANY))
		count(COUNT_REPLY_FAILED);
	return swallow();
}

static __always_inline int gather_next(struct __sk_buff *ctx, const struct settings *s, struct datagram *d)
{
	struct gathering *g = bpf_map_lookup_elem(&gathered, &d->gather);
	__u32 at = d->fragment - UDP_HEADER, bytes = d->bytes;
	struct ring_head *head;
	struct flow *flow;
	__u8 *ring;
	int verdict;

	if (!g)
		return TC_ACT_UNSPEC; /* a fragment of a reply to some UDP client */
	if (g->drop) {
		if (!d->more)
			bpf_map_delete_elem(&gathered, &d->gather);
		return swallow();
	}
	ring = ring_bytes();
	if (!ring || !WITHIN(at, 0, 65535) || !WITHIN(bytes, 1, 65535) || at + UDP_HEADER + bytes > g->total ||
	    bpf_skb_load_bytes(ctx, d->l4, ring + ring_offset(g->position) + 2 + at, bytes)) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	g->received += bytes;
	if (g->received < g->total)
		return swallow();
	d->port = g->flow.port;
	flow = bpf_map_lookup_elem(&flows, &g->flow);
	head = ring_top();
	if (!flow || !head) {
		verdict = swallow();
	} else if (!ring_holds(head, g->position)) {
		/* The first fragments are gone, and the entry still waits. The client asks
		 * again. */
		count(COUNT_REPLY_FAILED);
		verdict = swallow();
	} else {
		verdict = reply(ctx, s, d, flow, ring, g->position, g->total - UDP_HEADER, false);
	}
	bpf_map_delete_elem(&gathered, &d->gather);
	return verdict;
}

/* Handles a datagram of the server from the DNS port, or a fragment. A separate function, as
 * open_reply is: the stack has room for only one of them. */
__noinline int egress_one(struct __sk_buff *ctx, struct datagram *d)
{
	struct settings *s = settings_now();
	struct flow_key key = {};
	struct ring_head *head;
	struct flow *flow;
	__u32 position, length;
	enum telling tells;
	enum summing sum;
	__u8 *ring;

	if (!d || !s)
		return TC_ACT_UNSPEC;
	if (d->fragment)
		return gather_next(ctx, s, d);
	datagram_key(d, &key);
	flow = flow_find(&key);
	if (!flow || flow->state <= FLOW_SYN || flow->state == FLOW_OPEN || flow->dns_id != d->dns_id ||
	    !(d->dns_flags & bpf_htons(DNS_QR)) || !question_is(d, flow->question))
		return other_client(ctx, s, d);
	if (flow->state != FLOW_QUERY) {
		gather_drop(d);
		if (flow->flags & FLOW_AGAIN && (flow->state == FLOW_REPLIED || flow->state == FLOW_CLOSING))
			return reply_again(ctx, s, d, flow);
		/* The server also answered a repeated query. */
		count(COUNT_REPLY_REPEATED);
		return swallow();
	}

	length = d->length - UDP_HEADER;
	tells = reply_tells(s, d, length, flow->flags & FLOW_EDNS_ADDED);
	if (tells != TELLS_ANSWER || too_large(s, flow, d->v6, length, flow->flags & FLOW_EDNS_ADDED) ||
	    (length + DNS_PREFIX > segment_limit(s, flow, d->v6) + (flow->flags & FLOW_EDNS_ADDED ? DNS_OPT : 0) &&
	     !source_may_fill(s, (const __be32 *)d->gather.client, bpf_ktime_get_boot_ns(), length + DNS_PREFIX))) {
		gather_drop(d);
		return to_kernel(ctx, s, d, flow, tells);
	}
	head = ring_top();
	ring = ring_bytes();
	sum = summing(ctx, d->l4);
	if (!head || !ring || sum == SUM_ODD || !WITHIN(length, DNS_HEADER, 65535)) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	if (d->more)
		return gather_first(ctx, d, &key, ring, head);
	position = ring_take(head, 2 + length);
	if (bpf_skb_load_bytes(ctx, d->l4 + UDP_HEADER, ring + ring_offset(position) + 2, length)) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	return reply(ctx, s, d, flow, ring, position, length, sum == SUM_PARTIAL);
}

SEC("tcx/egress")
int gateway_egress(struct __sk_buff *ctx)
{
	struct settings *s = settings_now();
	struct datagram d = {};
	__u8 *server;
	int verdict;

	if (!s || !s->active || ctx->gso_size || !datagram_read(ctx, s, &d))
		return TC_ACT_UNSPEC;
	server = bpf_map_lookup_elem(&servers, &d.from);
	if (!server)
		return TC_ACT_UNSPEC;
	d.gather.server = *server;
	if (reply_of(ctx, &d) == REPLY_OPEN) {
		verdict = open_reply(ctx, &d);
		if (verdict != OPEN_OTHER)
			return verdict;
	}
	return egress_one(ctx, &d);
}

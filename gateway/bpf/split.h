/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc ingress: splits a segment with several queries. XDP can make only one packet out of one: the
 * first query's datagram, with a note where the ring has the segment. Here each further query goes
 * into ingress as a datagram of its own, a copy of this packet with another message.
 */
#pragma once

#include "answer.h"
#include "packet.h"
#include "resend.h"

/* Marks a packet whose queries are already split, so that its copies are not split again. */
#define SPLIT_INDEX 0x6e73

struct split_room {
	struct query_room room;
	struct query query;
	__be32 ip[10];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct split_room);
} split_room SEC(".maps");

struct splitting {
	struct __sk_buff *ctx;
	__u32 position;
	__u32 at;
	__u32 total;
	__u32 network;
	bool v6;
	bool failed;
};

/* Turns the packet into the datagram of the query at `at`. A separate function, so that the
 * verifier checks it once. */
__noinline int split_write(struct __sk_buff *ctx, __u32 position, __u32 at, __u32 network, bool v6)
{
	struct settings *s = settings_now();
	struct ring_head *head = ring_top();
	__u8 *ring = ring_bytes();
	__u32 zero = 0, length, message, bytes, l4, left;
	struct split_room *own = bpf_map_lookup_elem(&split_room, &zero);
	__be16 udp[4];
	__u64 sum = 0;

	if (!s || !head || !ring || !own || !WITHIN(at, 0, QUERY_MAX) || !WITHIN(network, 0, ETHERNET_HEADER))
		return 0;
	if (bpf_probe_read_kernel(own->room.bytes, QUERY_MAX, ring + ring_offset(position) + at) || !ring_holds(head, position))
		return 0;
	length = DNS_PREFIX + dns_u16(own->room.bytes);
	if (!WITHIN(length, QUERY_MIN, QUERY_MAX) || !query_read(&own->room, length, &own->query))
		return 0;
	length = query_raise_edns(&own->room, length, &own->query, s->edns_size);
	message = length - DNS_PREFIX;
	if (!WITHIN(message, 12, QUERY_MAX + DNS_OPT))
		return 0;
	*(__u32 *)&own->room.bytes[DNS_PREFIX + message] = 0;
	left = (message + 3) & ~3;
	at = DNS_PREFIX;
	for (int i = 0; i < 3 && left > SUM_CHUNK; i++) {
		sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)&own->room.bytes[at], SUM_CHUNK, 0);
		at += SUM_CHUNK;
		left -= SUM_CHUNK;
	}
	if (bounded(at) > QUERY_MAX + DNS_PREFIX + SUM_CHUNK || bounded(left) > SUM_CHUNK)
		return 0;
	sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)&own->room.bytes[at], left & ~3, 0);

	bytes = 8 + message;
	l4 = network + (v6 ? 40 : 20);
	if (bpf_skb_change_tail(ctx, l4 + bytes, 0) || bpf_skb_load_bytes(ctx, l4, udp, 4))
		return 0;
	udp[2] = bpf_htons(bytes);
	sum += (__u64)udp[0] + udp[1] + udp[2] + udp[2];
	if (v6) {
		if (bpf_skb_load_bytes(ctx, network, own->ip, 40))
			return 0;
		sum += sum_addresses6(own->ip + 2, own->ip + 6, IP_UDP);
		if (bpf_skb_store_bytes(ctx, network + 4, &udp[2], 2, 0))
			return 0;
	} else {
		__u64 header;

		if (bpf_skb_load_bytes(ctx, network, own->ip, 20))
			return 0;
		sum += sum_addresses4(own->ip[3], own->ip[4], IP_UDP);
		((__be16 *)own->ip)[1] = bpf_htons(20 + bytes);
		((__be16 *)own->ip)[5] = 0;
		header = (__u64)own->ip[0] + own->ip[1] + own->ip[2] + own->ip[3] + own->ip[4];
		((__u16 *)own->ip)[5] = ~sum_fold(header);
		if (bpf_skb_store_bytes(ctx, network, own->ip, 20, 0))
			return 0;
	}
	udp[3] = ~sum_fold(sum);
	if (!udp[3])
		udp[3] = 0xffff; /* RFC 768: 0 would mean that there is none */
	if (!WITHIN(message, 12, QUERY_MAX + DNS_OPT) || bpf_skb_store_bytes(ctx, l4, udp, sizeof(udp), 0) ||
	    bpf_skb_store_bytes(ctx, l4 + 8, own->room.bytes + DNS_PREFIX, message, 0))
		return 0;
	return DNS_PREFIX + dns_u16(own->room.bytes);
}

static long split_one(__u32 index, struct splitting *t)
{
	__u32 length = split_write(t->ctx, t->position, t->at, t->network, t->v6);

	/* Losing a query here is like losing it in the network: the client asks again. */
	if (!length) {
		t->failed = true;
		return 1;
	}
	t->at += length;
	if (t->at >= t->total)
		return 1;
	if (bpf_clone_redirect(t->ctx, t->ctx->ifindex, BPF_F_INGRESS))
		count(COUNT_XDP_ERROR);
	return 0;
}

/* Sends all queries but the last into ingress; the packet goes on as the last one. */
static __always_inline int split_send(struct __sk_buff *ctx, const struct unsent *split)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	struct splitting t = { .ctx = ctx, .position = split->position, .total = split->payload,
			       .v6 = ctx->protocol == bpf_htons(TYPE_IPV6) };
	/* If the link header was missing, the packet itself cannot go on with one. */
	bool missing = !unsent_network(skb);

	if (unsent_link(ctx, skb)) {
		count(COUNT_XDP_ERROR);
		return TC_ACT_SHOT;
	}
	t.network = unsent_network(skb);
	ctx->tc_index = SPLIT_INDEX;
	bpf_loop(OPEN_MAX, split_one, &t, 0);
	if (t.failed) {
		count(COUNT_XDP_ERROR);
		return TC_ACT_SHOT;
	}
	if (missing)
		return bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
	ctx->tc_index = 0;
	return TC_ACT_UNSPEC;
}

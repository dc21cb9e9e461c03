/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc ingress: the end of what XDP begins in answer.h. A packet of a virtual link often has no room for a reply's
 * payload; XDP then writes the headers alone, puts where the payload is before them, and lets them pass to here,
 * where a packet can be given any length.
 */
#pragma once

#include "answer.h"
#include "packet.h"

/* What XDP left, or 0. Nobody else writes there: it is not a part of the packet. */
static __always_inline struct unsent *unsent_find(struct __sk_buff *ctx)
{
	struct unsent *unsent = CONTEXT_FIELD(struct __sk_buff, ctx, data_meta);

	if ((void *)(unsent + 1) > packet_start(ctx) || unsent->mark != UNSENT_MARK)
		return 0;
	return unsent;
}

/* A packet whose checksum is to be finished behind us, from where its TCP header begins (segment.h says more of
 * this): its checksum field gets the sum of the pseudo-header alone. */
static __always_inline long unsent_checksum(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	__be32 ip[10];
	__u32 bytes;
	__u16 seed;
	__u64 sum;

	if (BPF_CORE_READ_BITFIELD(skb, ip_summed) != IP_SUMMED_PARTIAL)
		return 0;
	if (ctx->protocol == bpf_htons(TYPE_IPV4)) {
		bytes = 20;
		if (bpf_skb_load_bytes(ctx, ETHERNET_HEADER, ip, 20))
			return -1;
		sum = sum_addresses4(ip[3], ip[4], IP_TCP);
	} else {
		bytes = 40;
		if (bpf_skb_load_bytes(ctx, ETHERNET_HEADER, ip, 40))
			return -1;
		sum = sum_addresses6(ip + 2, ip + 6, IP_TCP);
	}
	bytes += ETHERNET_HEADER;
	if (skb->csum_offset != 16 || (unsigned long)skb->head + skb->csum_start != (unsigned long)skb->data + bytes)
		return -1;
	seed = sum_fold(sum + bpf_htons(ctx->len - bytes));
	return bpf_skb_store_bytes(ctx, bytes + 16, &seed, sizeof(seed), 0);
}

/* Appends the payload and sends the segment from where it came. */
static __always_inline int unsent_send(struct __sk_buff *ctx, const struct unsent *unsent)
{
	__u32 position = unsent->position, stored = ring_offset(position) + unsent->offset, payload = unsent->payload;
	__u32 headers = ctx->len;
	struct ring_head *head = ring_top();
	__u8 *bytes = ring_bytes();

	if (!head || !bytes || !WITHIN(payload, 1, SUM_MAX) || !WITHIN(stored, 0, RING_SIZE + RING_MARGIN / 2) ||
	    bpf_skb_change_tail(ctx, headers + payload, 0) ||
	    bpf_skb_store_bytes(ctx, headers, bytes + stored, payload, 0) || unsent_checksum(ctx) ||
	    !ring_holds(head, position)) {
		count(COUNT_XDP_ERROR);
		return TC_ACT_SHOT;
	}
	return bpf_redirect(ctx->ifindex, 0);
}

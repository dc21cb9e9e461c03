/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc ingress: the second half of what XDP begins in answer.h. Packets of virtual links often have
 * no room for a reply's payload. XDP then writes only the headers, stores the payload's place
 * before them, and lets the packet pass to here, where it can get any length.
 */
#pragma once

#include "answer.h"
#include "packet.h"

/* Whether XDP left something, and what. Nobody else writes there, because it is not part of the
 * packet. It lies before the link header. data_meta points elsewhere if the link header is
 * missing, as adopt_read.h explains. */
static __always_inline bool unsent_find(struct __sk_buff *ctx, struct unsent *unsent)
{
	struct unsent *meta = CONTEXT_FIELD(struct __sk_buff, ctx, data_meta);
	struct sk_buff *skb;

	if ((void *)(meta + 1) > packet_start(ctx))
		return false;
	skb = bpf_cast_to_kern_ctx(ctx);
	return !bpf_probe_read_kernel(unsent, sizeof(*unsent), skb->head + skb->mac_header - sizeof(*unsent)) &&
	       (unsent->mark == UNSENT_MARK || unsent->mark == SPLIT_MARK);
}

/* Whether XDP has seen the segment's socket. If the link header is missing, its last bytes, an
 * Ethernet type, stand in the mark's place; then tc ingress looks for the socket again. */
static __always_inline bool socket_marked(struct __sk_buff *ctx)
{
	__u32 *mark = CONTEXT_FIELD(struct __sk_buff, ctx, data_meta);

	return (void *)(mark + 1) <= packet_start(ctx) && *mark == SOCKET_MARK;
}

/* Where the IP header is. adopt_read.h explains why the link header may be missing. */
static __always_inline __u32 unsent_network(const struct sk_buff *skb)
{
	unsigned long at = (unsigned long)skb->head + skb->network_header - (unsigned long)skb->data;

	asm volatile("" : "+r"(at)); /* pointers can only be subtracted in 64 bits */
	return at;
}

/* Handles a packet whose checksum is finished later, from the start of its TCP header on (see
 * segment.h): puts the sum of the pseudo-header alone into its checksum field. */
static __always_inline long unsent_checksum(struct __sk_buff *ctx, const struct sk_buff *skb)
{
	__u32 transport = unsent_network(skb);
	unsigned long start;
	__be32 ip[10];
	__u16 seed;
	__u64 sum;

	if (BPF_CORE_READ_BITFIELD(skb, ip_summed) != IP_SUMMED_PARTIAL)
		return 0;
	if (ctx->protocol == bpf_htons(TYPE_IPV4)) {
		if (bpf_skb_load_bytes(ctx, transport, ip, 20))
			return -1;
		sum = sum_addresses4(ip[3], ip[4], IP_TCP);
		transport += 20;
	} else {
		if (bpf_skb_load_bytes(ctx, transport, ip, 40))
			return -1;
		sum = sum_addresses6(ip + 2, ip + 6, IP_TCP);
		transport += 40;
	}
	start = (unsigned long)skb->head + skb->csum_start - (unsigned long)skb->data;
	asm volatile("" : "+r"(start));
	if (skb->csum_offset != 16 || start != transport)
		return -1;
	seed = sum_fold(sum + bpf_htons(ctx->len - transport));
	return bpf_skb_store_bytes(ctx, transport + 16, &seed, sizeof(seed), 0);
}

/* Puts the link header, which XDP has reversed, in front of a packet that lost it. */
static __always_inline long unsent_link(struct __sk_buff *ctx, const struct sk_buff *skb)
{
	__u8 link[ETHERNET_HEADER];

	if (unsent_network(skb))
		return 0;
	return bpf_probe_read_kernel(link, sizeof(link), skb->head + skb->mac_header) ||
	       bpf_skb_change_head(ctx, sizeof(link), 0) || bpf_skb_store_bytes(ctx, 0, link, sizeof(link), 0);
}

/* Appends the payload and sends the segment back out of the interface on which the query came
 * in. */
static __always_inline int unsent_send(struct __sk_buff *ctx, const struct unsent *unsent)
{
	__u32 position = unsent->position, stored = ring_offset(position) + unsent->offset, payload = unsent->payload;
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	struct ring_head *head = ring_top();
	__u32 headers = unsent_network(skb) + unsent->headers;
	__u8 *bytes = ring_bytes();

	if (!head || !bytes || !WITHIN(payload, 1, SUM_MAX) || !WITHIN(stored, 0, RING_SIZE + RING_MARGIN / 2) ||
	    bpf_skb_change_tail(ctx, headers + payload, 0) ||
	    bpf_skb_store_bytes(ctx, headers, bytes + stored, payload, 0) || unsent_checksum(ctx, skb) ||
	    unsent_link(ctx, skb) || !ring_holds(head, position)) {
		count(COUNT_XDP_ERROR);
		return TC_ACT_SHOT;
	}
	return bpf_redirect(ctx->ifindex, 0);
}

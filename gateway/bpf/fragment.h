/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc ingress: data in IP fragments (PROTOCOL.md, "Fragments").
 *
 * The kernel puts fragments together behind tc, where it is too late to take a connection over. So
 * the connection is taken over with an ACK without data, made of the first fragment's headers. A
 * copy of that fragment comes in again behind it, for the kernel's TCP. Nothing is kept here.
 */
#pragma once

#include "packet.h"
#include "parse.h"
#include "resend.h"
#include "track.h"

/* How far a first fragment is, as SHOWN_INDEX. */
#define FRAGMENT_HELD 0x6e74  /* it waits behind the handshake for connection tracking */
#define FRAGMENT_READY 0x6e75 /* the connection can be taken over */
#define FRAGMENT_LAST 0x6e76  /* this has happened; the stack gets the fragment */

/* Puts the packet into ingress again. A separate function, so that the verifier checks it once. */
__noinline int fragment_again(struct __sk_buff *ctx)
{
	if (unsent_link(ctx, bpf_cast_to_kern_ctx(ctx))) {
		count(COUNT_XDP_ERROR);
		return TC_ACT_SHOT;
	}
	ctx->tc_index = FRAGMENT_READY;
	return bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
}

/* Puts a copy into ingress, behind what the packet becomes here. Returns 0 if that fails. */
__noinline int fragment_follows(struct __sk_buff *ctx)
{
	long failed;

	if (!unsent_network(bpf_cast_to_kern_ctx(ctx)))
		return 0;
	ctx->tc_index = FRAGMENT_LAST;
	failed = bpf_clone_redirect(ctx, ctx->ifindex, BPF_F_INGRESS);
	ctx->tc_index = 0;
	return !failed;
}

/* Turns a first fragment into a whole packet: an ACK without data, at `in->seq`. */
__noinline int fragment_cut(struct __sk_buff *ctx, const struct incoming *in)
{
	__u8 header[TCP_HEADER_MAX] = {};
	struct tcp_header *tcp = (struct tcp_header *)header;
	__u32 network, transport, bytes;
	__be16 old[2], new[2] = {}; /* length; "more fragments" and offset */
	__u64 sum;

	if (!in)
		return 0;
	network = in->network;
	transport = in->transport;
	bytes = in->header;
	if (!WITHIN(bytes, sizeof(*tcp), TCP_HEADER_MAX) || bpf_skb_change_tail(ctx, transport + bytes, 0) ||
	    bpf_skb_load_bytes(ctx, transport, header, bytes))
		return 0;
	if (in->ipv6) {
		/* The fragment header is the last one before TCP's. */
		new[0] = bpf_htons(transport + bytes - network - 40);
		if (bpf_skb_store_bytes(ctx, network + 4, &new[0], 2, 0) ||
		    bpf_skb_store_bytes(ctx, transport - 6, &new[1], 2, 0))
			return 0;
	} else {
		new[0] = bpf_htons(transport + bytes - network);
		if (bpf_skb_load_bytes(ctx, network + 2, &old[0], 2) || bpf_skb_load_bytes(ctx, network + 6, &old[1], 2) ||
		    bpf_l3_csum_replace(ctx, network + 10, old[0], new[0], 2) ||
		    bpf_l3_csum_replace(ctx, network + 10, old[1], new[1], 2) ||
		    bpf_skb_store_bytes(ctx, network + 2, &new[0], 2, 0) ||
		    bpf_skb_store_bytes(ctx, network + 6, &new[1], 2, 0))
			return 0;
	}
	tcp->seq = bpf_htonl(in->seq);
	tcp->offset = bytes << 2;
	tcp->flags = FLAG_ACK;
	tcp->urgent = 0;
	tcp->checksum = 0;
	sum = in->ipv6 ? sum_addresses6(in->who.client, in->who.server, IP_TCP) :
			 sum_addresses4(in->who.client[3], in->who.server[3], IP_TCP);
	sum += bpf_htons(bytes);
	sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)header, sizeof(header), 0);
	tcp->checksum = ~sum_fold(sum);
	return WITHIN(bytes, sizeof(*tcp), TCP_HEADER_MAX) && !bpf_skb_store_bytes(ctx, transport, header, bytes, 0);
}

/* Lets the fragment come in again, ready, and before it the handshake for connection tracking. The
 * connection begins at `first` for the kernel. */
__noinline int fragment_begin(struct __sk_buff *ctx, struct incoming *in, const struct offer *agreed, __u32 first)
{
	struct settings *s = settings_now();
	__u32 link;

	if (!s || !in || !agreed)
		return TC_ACT_SHOT;
	if (!s->track)
		return fragment_again(ctx);
	link = ETHERNET_HEADER - in->network;
	if (unsent_link(ctx, bpf_cast_to_kern_ctx(ctx)))
		goto failed;
	in->network += link;
	in->transport += link;
	ctx->tc_index = FRAGMENT_HELD;
	if (bpf_clone_redirect(ctx, ctx->ifindex, BPF_F_INGRESS))
		goto failed;
	ctx->tc_index = 0;
	if (!fragment_cut(ctx, in) || !track_show(ctx, in, agreed, first))
		goto failed;
	return TC_ACT_SHOT;
failed:
	count(COUNT_XDP_ERROR);
	return TC_ACT_SHOT;
}

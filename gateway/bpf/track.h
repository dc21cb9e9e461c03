/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc ingress: a handshake for connection tracking (PROTOCOL.md, "Connection tracking").
 *
 * Tracking never saw the handshake that XDP answered. To it, the first segment that the kernel gets
 * would belong to a new connection without a SYN, and many packet filters drop that. Without the
 * SYN's options, tracking would also not know the window scales, and would take segments of long
 * replies for invalid.
 *
 * The missing packets are copies of the segment itself with other TCP headers; what follows the
 * headers has no effect. They go to a group address of the link. So TCP and IP forwarding discard
 * them after tracking and the packet filter have seen them (kernel 6.18: tcp_v4_rcv, tcp_v6_rcv,
 * ip_forward, ip6_forward; RFC 1122 section 4.2.3.10), and no socket ever sees them.
 */
#pragma once

#include "packet.h"
#include "parse.h"
#include "resend.h"

/* Marks a segment that follows its handshake: tc's class index, which survives the way through
 * ingress. */
#define SHOWN_INDEX 0x6e72
/* The options of a SYN that say what was agreed; the rest is NOP (1). */
#define TRACK_OPTIONS 40

/* A link's group address that no bridge passes on (IEEE 802.1Q section 8.6.3). */
static const __u8 group_address[6] = { 0x01, 0x80, 0xc2, 0x00, 0x00, 0x03 };

struct track_header {
	struct tcp_header tcp;
	__u8 options[TRACK_OPTIONS];
};

/* Too large for the stack: the header that the segment has now, the next one, and the one it
 * came with. */
struct track_headers {
	struct track_header old, new, came;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct track_headers);
} track_headers SEC(".maps");

static __always_inline void track_options(struct track_header *header, const struct offer *agreed, __u8 wscale)
{
	__builtin_memset(header->options, 1, sizeof(header->options));
	/* Each of these is only agreed together with timestamps, so there is room for it. */
	if (agreed->wscale != WSCALE_NONE) {
		header->options[1] = 3;
		header->options[2] = 3;
		header->options[3] = wscale;
	}
	if (agreed->sack) {
		header->options[4] = 4;
		header->options[5] = 2;
	}
}

/* Replaces a TCP header of `bytes` bytes by another one. */
static __always_inline long track_write(struct __sk_buff *ctx, __u32 transport, __u32 bytes, struct track_header *old,
					struct track_header *new)
{
	__s64 difference;

	if (!WITHIN(bytes, sizeof(struct tcp_header), sizeof(*new)))
		return -1;
	new->tcp.checksum = old->tcp.checksum;
	bytes &= ~3;
	difference = bpf_csum_diff((__be32 *)old, bytes, (__be32 *)new, bytes, 0);
	if (difference < 0 || !WITHIN(bytes, sizeof(struct tcp_header), sizeof(*new)) ||
	    bpf_skb_store_bytes(ctx, transport, new, bytes, 0) ||
	    bpf_l4_csum_replace(ctx, transport + offsetof(struct tcp_header, checksum), 0, difference, 0) ||
	    bpf_skb_load_bytes(ctx, transport, old, bytes))
		return -1;
	return 0;
}

/* Swaps the packet's two IP addresses, which changes no checksum. */
static __always_inline long track_swap(struct __sk_buff *ctx, const struct incoming *in, __u32 network, bool back)
{
	const __u8 *first = (__u8 *)(back ? in->who.client : in->who.server);
	const __u8 *second = (__u8 *)(back ? in->who.server : in->who.client);

	if (in->ipv6)
		return bpf_skb_store_bytes(ctx, network + 8, first, 16, 0) ||
		       bpf_skb_store_bytes(ctx, network + 24, second, 16, 0);
	return bpf_skb_store_bytes(ctx, network + 12, first + 12, 4, 0) ||
	       bpf_skb_store_bytes(ctx, network + 16, second + 12, 4, 0);
}

/* Sends a SYN and a SYN/ACK before the segment, which for the kernel begins at `first`. The
 * segment then comes in again behind them. A separate function, so that the verifier checks it
 * once. */
__noinline int track_show(struct __sk_buff *ctx, const struct incoming *in, const struct offer *agreed, __u32 first)
{
	__u32 network = ETHERNET_HEADER, transport, bytes, zero = 0;
	struct track_headers *h = bpf_map_lookup_elem(&track_headers, &zero);
	__u8 mac[6];

	if (!in || !agreed || !h)
		return 0;
	transport = in->transport - in->network + ETHERNET_HEADER;
	bytes = in->header;
	if (unsent_link(ctx, bpf_cast_to_kern_ctx(ctx)) || !WITHIN(bytes, sizeof(struct tcp_header), sizeof(h->old)) ||
	    bpf_skb_load_bytes(ctx, transport, &h->old, bytes) || bpf_skb_load_bytes(ctx, 0, mac, sizeof(mac)) ||
	    bpf_skb_store_bytes(ctx, 0, group_address, sizeof(group_address), 0))
		return 0;
	h->came = h->old;

	h->new.tcp = h->old.tcp;
	h->new.tcp.seq = bpf_htonl(first - 1);
	h->new.tcp.ack = 0;
	h->new.tcp.flags = FLAG_SYN;
	h->new.tcp.window = bpf_htons(WINDOW_PLAIN);
	track_options(&h->new, agreed, agreed->wscale);
	if (track_write(ctx, transport, bytes, &h->old, &h->new) || bpf_clone_redirect(ctx, ctx->ifindex, BPF_F_INGRESS))
		return 0;

	h->new.tcp.source = h->came.tcp.destination;
	h->new.tcp.destination = h->came.tcp.source;
	h->new.tcp.seq = bpf_htonl(in->ack - 1);
	h->new.tcp.ack = bpf_htonl(first);
	h->new.tcp.flags = FLAG_SYN | FLAG_ACK;
	track_options(&h->new, agreed, WSCALE_OURS);
	if (track_write(ctx, transport, bytes, &h->old, &h->new) || track_swap(ctx, in, network, false) ||
	    bpf_clone_redirect(ctx, ctx->ifindex, BPF_F_INGRESS))
		return 0;

	return !track_swap(ctx, in, network, true) && !track_write(ctx, transport, bytes, &h->old, &h->came) &&
	       !bpf_skb_store_bytes(ctx, 0, mac, sizeof(mac), 0);
}

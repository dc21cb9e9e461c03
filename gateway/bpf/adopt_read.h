/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc ingress: reads a segment that XDP let pass, and what was agreed on with its client.
 */
#pragma once

#include "packet.h"

/* Parses the packet from its IP header on. An Ethernet header usually comes first. But when
 * generic XDP had to copy the packet, Linux forgets how long the link header was, and tc sees
 * the packet without one (kernel 6.18, net/core/skbuff.c skb_pp_cow_data, which does not copy
 * mac_len). */
static __always_inline enum parsed adopt_parse(struct __sk_buff *ctx, __u16 port, struct incoming *in)
{
	struct cursor cursor = { packet_start(ctx), packet_end(ctx) };
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	struct tcp_header *tcp;
	enum parsed parsed;
	__u32 rest;

	in->network = (unsigned long)skb->head + skb->network_header - (unsigned long)skb->data;
	if (in->network == ETHERNET_HEADER) {
		if (!cursor_take(&cursor, ETHERNET_HEADER))
			return PARSED_MALFORMED;
	} else if (in->network) {
		return PARSED_OTHER;
	}
	if (ctx->protocol == bpf_htons(TYPE_IPV4))
		parsed = parse_ipv4(&cursor, ctx->len, in, &rest);
	else if (ctx->protocol == bpf_htons(TYPE_IPV6))
		parsed = parse_ipv6(&cursor, ctx->len, in, &rest);
	else
		return PARSED_OTHER;
	if (parsed != PARSED_SEGMENT && parsed != PARSED_FRAGMENT)
		return parsed;
	tcp = cursor_take(&cursor, sizeof(*tcp));
	if (!tcp || rest < sizeof(*tcp))
		return PARSED_MALFORMED_TCP;
	in->header = tcp->offset >> 4 << 2;
	if (tcp->destination != bpf_htons(port) || in->header < sizeof(*tcp))
		return PARSED_OTHER;
	if (in->header > rest) {
		if (parsed != PARSED_FRAGMENT)
			return PARSED_OTHER;
		in->header = sizeof(*tcp); /* its options continue in the next fragment */
	}
	in->length = rest - in->header;
	in->who.client_port = tcp->source;
	in->who.server_port = tcp->destination;
	in->seq = bpf_ntohl(tcp->seq);
	in->ack = bpf_ntohl(tcp->ack);
	in->flags = tcp->flags;
	return parsed;
}

/* Reads a segment without its options. This and the functions below are separate, so that the
 * verifier checks each of them once. */
__noinline int adopt_read(struct __sk_buff *ctx, struct incoming *in)
{
	struct settings *s = settings_now();

	if (!s || !in)
		return PARSED_OTHER;
	return adopt_parse(ctx, s->port, in);
}

/* Reads a segment's timestamps. After the SYN, no other option says anything. */
__noinline int adopt_options(struct __sk_buff *ctx, const struct incoming *in, struct options *options)
{
	struct option_bytes bytes = {};
	__u32 length;

	if (!in || !options)
		return 0;
	length = in->header - sizeof(struct tcp_header);
	if (WITHIN(length, 1, OPTIONS_MAX) && !bpf_skb_load_bytes(ctx, in->transport + sizeof(struct tcp_header), bytes.at, length))
		options_read(&bytes, length, options);
	return 0;
}

/* Whether the segment carries a valid cookie, and what was agreed on in its handshake. */
__noinline int adopt_cookie(const struct incoming *in, const struct options *options, struct offer *agreed)
{
	struct settings *s = settings_now();
	struct cookie_message who;

	if (!s || !in || !options || !agreed)
		return 0;
	who = in->who;
	who.client_isn = bpf_htonl(in->seq - 1);
	return cookie_check(s, &who, bpf_ktime_get_boot_ns(), in->ack - 1, options->offer.timestamps, options->tsecr, agreed);
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What XDP turns a client's packet into: a segment to the client, or a datagram to the server.
 *
 * Both are written over the packet that came. XDP changes its size at the end. Packets of virtual
 * links often have no room there; then the packet grows at the front. If that is not enough for the
 * payload, tc ingress appends it (resend.h).
 */
#pragma once

#include "payload.h"
#include "ring.h"

/* Loads of context fields, written so that clang cannot merge or move them. */
#define CONTEXT_FIELD(type, ctx, field)                                                        \
	({                                                                                     \
		void *pointer;                                                                 \
		asm volatile("%0 = *(u32 *)(%1 + %2)"                                          \
			     : "=r"(pointer)                                                   \
			     : "r"(ctx), "i"(__builtin_offsetof(type, field)));                \
		pointer;                                                                       \
	})

/* NOP NOP TS (RFC 7323 appendix A). */
static __always_inline void answer_timestamps(struct answer *a, __u32 tsval, __u32 tsecr)
{
	a->words = 3;
	a->option[0] = bpf_htonl(0x0101080a);
	a->option[1] = bpf_htonl(tsval);
	a->option[2] = bpf_htonl(tsecr);
}

/* Changes the size of a frame of `old` bytes; with `front`, at its front only. The contents keep
 * their distance from the frame's start. */
static __always_inline long frame_resize(struct xdp_md *ctx, __u32 old, __u32 size, bool front)
{
	__u8 link[ETHERNET_HEADER + VLAN_TAGS_MAX * VLAN_TAG];
	__s32 more = size - old;

	if (!more || (!front && !bpf_xdp_adjust_tail(ctx, more)))
		return 0;
	/* The caller rewrites everything behind the link header. */
	return bpf_xdp_load_bytes(ctx, 0, link, sizeof(link)) || bpf_xdp_adjust_head(ctx, -more) ||
	       bpf_xdp_store_bytes(ctx, 0, link, sizeof(link));
}

/* Sends the answer in place of the packet that came, a frame of `frame` bytes. */
/* Long: the headers are written in the order in which they stand in the frame, and the pointers into
 * it hold only as long as nothing moves it. */
static __always_inline int answer_send(struct xdp_md *ctx, __u32 frame, const struct scratch *scratch, bool generic)
{
	const struct incoming *in = &scratch->in;
	const struct answer *a = &scratch->answer;
	__u32 ip_bytes = in->ipv6 ? 40 : 20, tcp_bytes = 20 + a->words * 4;
	__u32 headers = in->network + ip_bytes + tcp_bytes, payload = a->payload;
	int verdict = XDP_TX;
	void *data, *end;
	__be32 *word;
	__u64 sum;

	sum = bpf_htons(tcp_bytes + payload);
	sum += in->ipv6 ? sum_addresses6(in->who.client, in->who.server, IP_TCP) :
			  sum_addresses4(in->who.client[3], in->who.server[3], IP_TCP);
	if (payload) {
		__u32 stored = ring_offset(a->position) + a->offset;
		__u8 *ring = ring_bytes();

		if (!ring || payload > SUM_MAX || stored > RING_SIZE + RING_MARGIN / 2)
			goto failed;
		sum += sum_ring(stored, payload);
		/* After a size change in the kernel's receive path, Linux records the end of the
		 * frame 14 bytes too far back (seen with kernel 6.18, bpf_prog_run_generic_xdp).
		 * If TCP on the same machine then appends the next segment to such a packet, it
		 * reads 14 wrong bytes before that segment. */
		if (!generic && !frame_resize(ctx, frame, headers + payload, false)) {
			struct ring_head *head = ring_top();

			/* Another connection's data may have replaced the reply before it was copied. */
			if (bpf_xdp_store_bytes(ctx, headers, ring + stored, payload) || !head ||
			    !ring_holds(head, a->position))
				goto failed;
		} else {
			struct unsent *unsent;

			/* tc cuts off what follows the headers. */
			if ((frame < headers && frame_resize(ctx, frame, headers, generic)) ||
			    bpf_xdp_adjust_meta(ctx, -(int)sizeof(*unsent)))
				goto failed;
			unsent = CONTEXT_FIELD(struct xdp_md, ctx, data_meta);
			data = CONTEXT_FIELD(struct xdp_md, ctx, data);
			if ((void *)(unsent + 1) > data)
				goto failed;
			unsent->mark = UNSENT_MARK;
			unsent->position = a->position;
			unsent->offset = a->offset;
			unsent->payload = payload;
			unsent->headers = ip_bytes + tcp_bytes;
			verdict = XDP_PASS;
		}
	} else if (frame_resize(ctx, frame, headers, false)) {
		goto failed;
	}

	data = CONTEXT_FIELD(struct xdp_md, ctx, data);
	end = CONTEXT_FIELD(struct xdp_md, ctx, data_end);
	word = data;
	if ((void *)(word + 3) > end)
		goto failed;
	{
		/* Swaps the two Ethernet addresses. */
		__u16 *half = data;
		__u16 a0 = half[0], a1 = half[1], a2 = half[2];

		half[0] = half[3];
		half[1] = half[4];
		half[2] = half[5];
		half[3] = a0;
		half[4] = a1;
		half[5] = a2;
	}

	word = data + (in->network & 31);
	if (in->ipv6) {
		if ((void *)(word + 10) > end)
			goto failed;
		word[0] = bpf_htonl(6 << 28);
		word[1] = bpf_htonl((tcp_bytes + payload) << 16 | IP_TCP << 8 | 64);
		__builtin_memcpy(word + 2, in->who.server, 16);
		__builtin_memcpy(word + 6, in->who.client, 16);
		word += 10;
	} else {
		__u64 header;

		if ((void *)(word + 5) > end)
			goto failed;
		word[0] = bpf_htonl(0x45000000 | (20 + tcp_bytes + payload));
		word[1] = bpf_htonl(0x4000); /* DF */
		word[2] = bpf_htonl(64 << 24 | IP_TCP << 16);
		word[3] = in->who.server[3];
		word[4] = in->who.client[3];
		header = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];
		((__u16 *)word)[5] = ~sum_fold(header);
		word += 5;
	}

	{
		__be32 tcp[4];

		tcp[0] = bpf_htonl((__u32)bpf_ntohs(in->who.server_port) << 16 | bpf_ntohs(in->who.client_port));
		tcp[1] = bpf_htonl(a->seq);
		tcp[2] = bpf_htonl(a->ack);
		tcp[3] = bpf_htonl((tcp_bytes / 4) << 28 | (__u32)a->flags << 16 | a->window);
		sum += (__u64)tcp[0] + tcp[1] + tcp[2] + tcp[3];
		for (int i = 0; i < 5; i++)
			sum += i < a->words ? a->option[i] : 0;
		if ((void *)(word + 5) > end)
			goto failed;
		word[0] = tcp[0];
		word[1] = tcp[1];
		word[2] = tcp[2];
		word[3] = tcp[3];
		((__u16 *)word)[8] = ~sum_fold(sum);
		((__u16 *)word)[9] = 0;
	}
	/* The verifier needs a separate bound for each possible number of words. */
	if (a->words == 1) {
		if ((void *)(word + 6) > end)
			goto failed;
		word[5] = a->option[0];
	} else if (a->words == 3) {
		if ((void *)(word + 8) > end)
			goto failed;
		word[5] = a->option[0];
		word[6] = a->option[1];
		word[7] = a->option[2];
	} else if (a->words >= 4) {
		if ((void *)(word + 9) > end)
			goto failed;
		word[5] = a->option[0];
		word[6] = a->option[1];
		word[7] = a->option[2];
		word[8] = a->option[3];
		if (a->words == 5) {
			if ((void *)(word + 10) > end)
				goto failed;
			word[9] = a->option[4];
		}
	}
	return verdict;
failed:
	count(COUNT_XDP_ERROR);
	return XDP_DROP;
}

/* Sends the query in the scratch, a payload of `length` bytes, to the server as a datagram. */
static __always_inline int datagram_send(struct xdp_md *ctx, __u32 frame, struct scratch *scratch, __u32 length)
{
	const struct incoming *in = &scratch->in;
	__u32 ip_bytes = in->ipv6 ? 40 : 20, message = length - DNS_PREFIX, udp_bytes = 8 + message;
	__u32 size = in->network + ip_bytes + udp_bytes;
	__be16 udp_length = bpf_htons(udp_bytes), *udp;
	void *data, *end;
	__u64 sum;
	__u16 folded;

	if (message < 12 || message > QUERY_MAX + DNS_OPT)
		return XDP_DROP;
	/* The length counts twice: in the pseudo-header and in the UDP header. */
	sum = (__u64)udp_length + udp_length + in->who.client_port + in->who.server_port;
	sum += in->ipv6 ? sum_addresses6(in->who.client, in->who.server, IP_UDP) :
			  sum_addresses4(in->who.client[3], in->who.server[3], IP_UDP);
	scratch_pad(scratch, SCRATCH_PAYLOAD + length);
	sum += scratch_sum(scratch, SCRATCH_PAYLOAD + DNS_PREFIX, message);
	folded = ~sum_fold(sum);
	if (!folded)
		folded = 0xffff; /* RFC 768: 0 would mean that there is no checksum */

	data = CONTEXT_FIELD(struct xdp_md, ctx, data);
	end = CONTEXT_FIELD(struct xdp_md, ctx, data_end);
	data += in->network & 31;
	if (in->ipv6) {
		struct ipv6hdr *ip = data;

		udp = (void *)(ip + 1);
		if ((void *)(udp + 4) > end)
			goto failed;
		ip->payload_len = udp_length;
		ip->nexthdr = IP_UDP;
	} else {
		struct iphdr *ip = data;
		__be32 *word = data;

		udp = (void *)(ip + 1);
		if ((void *)(udp + 4) > end)
			goto failed;
		*(__u8 *)ip = 0x45;
		ip->tot_len = bpf_htons(20 + udp_bytes);
		ip->frag_off &= bpf_htons(0x4000);
		ip->protocol = IP_UDP;
		ip->check = 0;
		ip->check = ~sum_fold((__u64)word[0] + word[1] + word[2] + word[3] + word[4]);
	}
	udp[0] = in->who.client_port;
	udp[1] = in->who.server_port;
	udp[2] = udp_length;
	udp[3] = folded;
	if (bpf_xdp_store_bytes(ctx, in->network + ip_bytes + 8, &scratch->bytes[SCRATCH_PAYLOAD + DNS_PREFIX], message) ||
	    bpf_xdp_adjust_tail(ctx, size - frame))
		goto failed;
	if (scratch->split.count > 1) {
		struct unsent *split;

		if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*split)))
			goto failed;
		split = CONTEXT_FIELD(struct xdp_md, ctx, data_meta);
		data = CONTEXT_FIELD(struct xdp_md, ctx, data);
		if ((void *)(split + 1) > data)
			goto failed;
		*split = scratch->split;
	}
	return XDP_PASS;
failed:
	count(COUNT_XDP_ERROR);
	return XDP_DROP;
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc egress, setting truncate_over: shortens a long UDP reply to its header, its question and a
 * bare OPT, with TC = 1 (RFC 1035 section 4.1.1, RFC 6891 section 7), so that the client asks again
 * over TCP. S9 of the paper.
 *
 * truncate_over is 512 bytes or more, and only a client that sent an OPT gets more than 512 bytes
 * (RFC 1035 section 4.2.1, RFC 6891 section 6.2.3). So the truncated reply needs an OPT, too (RFC
 * 6891 section 6.1.1), unless the server itself sent no additional record.
 */
#pragma once

/* Header, name, type and class. */
#define TRUNCATED_MAX (DNS_HEADER + DNS_NAME_MAX + 4)

/* A datagram of the server that belongs to no entry. */
/* Long: the reply is cut in place, step by step, and each step can fail. */
static __always_inline int other_client(struct __sk_buff *ctx, const struct settings *s, const struct datagram *d)
{
	const __be32 *from = (const __be32 *)d->from.address, *to = (const __be32 *)d->gather.client;
	__u32 length = d->length - UDP_HEADER, first = d->bytes - UDP_HEADER, at, end, offset, bytes, l4;
	struct ring_head *head = ring_top();
	__u8 *ring = ring_bytes(), *message;
	__u8 opt[DNS_OPT] = {};
	enum summing sum;
	__be16 udp[4];
	__u64 total;
	long error;

	if (!s->truncate_over || length <= s->truncate_over || !(d->dns_flags & bpf_htons(DNS_QR)))
		return TC_ACT_UNSPEC;
	sum = summing(ctx, d->l4);
	if (!head || !ring || sum == SUM_ODD || !WITHIN(first, DNS_HEADER, 65535))
		return TC_ACT_UNSPEC;

	/* It is put together in the ring like a query, behind room for its length. */
	offset = ring_offset(ring_take(head, DNS_PREFIX + TRUNCATED_MAX + DNS_OPT));
	message = ring + offset + DNS_PREFIX;
	bytes = first < TRUNCATED_MAX ? first : TRUNCATED_MAX;
	if (!WITHIN(bytes, DNS_HEADER, TRUNCATED_MAX) ||
	    bpf_skb_load_bytes(ctx, d->l4 + UDP_HEADER, message, bytes))
		return TC_ACT_UNSPEC;
	if (dns_u16(message + 4) != 1)
		return TC_ACT_UNSPEC;
	end = question_length((struct query_room *)(ring + offset), DNS_PREFIX + bytes);
	if (!end)
		return TC_ACT_UNSPEC;
	end += DNS_HEADER;
	if (!WITHIN(end, DNS_HEADER, TRUNCATED_MAX))
		return TC_ACT_UNSPEC;
	if (message[10] || message[11]) {
		/* The end of a fragmented reply is not here yet, and neither is its OPT. */
		at = d->l4 + UDP_HEADER + length - DNS_OPT;
		if (d->more || length < end + DNS_OPT || bpf_skb_load_bytes(ctx, at, opt, DNS_OPT) || opt[0] || opt[1] ||
		    opt[2] != DNS_TYPE_OPT || opt[9] || opt[10]) {
			/* A new OPT with DO = 0, because the query, which had the bit, is not known here. */
			__builtin_memset(opt, 0, DNS_OPT);
			opt[2] = DNS_TYPE_OPT;
			opt[3] = s->truncate_over >> 8;
			opt[4] = s->truncate_over;
		}
		__builtin_memcpy(message + end, opt, DNS_OPT);
		end += DNS_OPT;
		message[11] = 1;
	}
	message[2] |= DNS_TC >> 8;
	message[6] = message[7] = message[8] = message[9] = message[10] = 0;

	/* The fragment becomes a whole datagram: IPv6 loses its fragment header. */
	l4 = d->v6 ? ETHERNET_HEADER + 40 : ETHERNET_HEADER + 20;
	bytes = UDP_HEADER + end;
	udp[0] = bpf_htons(s->port);
	udp[1] = d->port;
	udp[2] = bpf_htons(bytes);
	udp[3] = 0;
	total = d->v6 ? sum_addresses6(from, to, IPPROTO_UDP) : sum_addresses4(from[3], to[3], IPPROTO_UDP);
	total += udp[2];
	if (sum == SUM_PARTIAL) {
		udp[3] = sum_fold(total);
	} else {
		udp[3] = ~sum_fold(total + udp[0] + udp[1] + udp[2] + sum_ring(offset + DNS_PREFIX, end));
		if (!udp[3])
			udp[3] = 0xffff; /* RFC 768: 0 would mean that there is no checksum */
	}
	if (bpf_skb_change_tail(ctx, l4 + bytes, 0))
		return TC_ACT_UNSPEC;
	count(COUNT_TRUNCATED);
	gather_drop(d);
	if (d->v6) {
		__be16 payload = udp[2];
		__u8 next = IPPROTO_UDP;

		error = bpf_skb_store_bytes(ctx, ETHERNET_HEADER + 4, &payload, 2, 0) | bpf_skb_store_bytes(ctx, ETHERNET_HEADER + 6, &next, 1, 0);
	} else {
		__be16 fields[4]; /* length, identification, flags and offset, TTL and protocol */
		__be16 size = bpf_htons(20 + bytes), whole;

		error = bpf_skb_load_bytes(ctx, ETHERNET_HEADER + 2, fields, 8);
		whole = fields[2] & ~bpf_htons(0x2000);
		error |= bpf_l3_csum_replace(ctx, ETHERNET_HEADER + 10, fields[0], size, 2) |
			 bpf_l3_csum_replace(ctx, ETHERNET_HEADER + 10, fields[2], whole, 2) |
			 bpf_skb_store_bytes(ctx, ETHERNET_HEADER + 2, &size, 2, 0) | bpf_skb_store_bytes(ctx, ETHERNET_HEADER + 6, &whole, 2, 0);
	}
	error |= bpf_skb_store_bytes(ctx, l4, udp, UDP_HEADER, 0) | bpf_skb_store_bytes(ctx, l4 + UDP_HEADER, message, end, 0);
	if (error) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	return TC_ACT_UNSPEC;
}

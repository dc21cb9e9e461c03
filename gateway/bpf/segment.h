/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Replaces a datagram by one TCP segment (tc).
 *
 * The datagram usually leaves its checksum to the interface (CHECKSUM_PARTIAL). Whoever finishes it
 * sums everything from csum_start, the UDP header, and puts the result csum_offset = 6 bytes behind
 * that. No helper changes these three facts. So the TCP header begins 10 bytes before the UDP
 * header. This makes csum_start + 6 its checksum field, which is seeded with what lies before
 * csum_start: the pseudo-header and the first 10 bytes.
 *
 *        IP header | UDP header | message                         csum_start = UDP header
 *   IP header | TCP header 0..10 | 10..20, checksum at 16 | ...   csum_start = TCP header + 10
 *
 * (kernel 6.18: net/core/dev.c skb_checksum_help, net/core/filter.c bpf_skb_adjust_room.) Some
 * interfaces look for the TCP header themselves and ignore csum_start. On those, transmit
 * checksumming is switched off.
 */
#pragma once

#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#define UDP_HEADER 8
/* How far the TCP header begins before the UDP header. */
#define TCP_AHEAD 10


/* RFC 9293 section 3.1, with the timestamps option of RFC 7323 section 3.2 in the layout of its
 * appendix A. */
union tcp_image {
	struct {
		__be16 source;
		__be16 destination;
		__be32 seq;
		__be32 ack;
		__u8 offset; /* in the upper four bits */
		__u8 flags;
		__be16 window;
		__u16 check;
		__be16 urgent;
		__be32 nop_nop_ts;
		__be32 tsval;
		__be32 tsecr;
	};
	__u32 words[8];
	__u16 halves[16];
};

/* An IP and a TCP header in one piece; the IPv4 header begins at ip[5]. */
struct headers {
	__be32 ip[10];
	union tcp_image tcp;
};

/* What the segments of one reply have in common. */
struct sending {
	struct headers h;
	__u64 addresses; /* sum of the pseudo-header without the length */
	bool v6;
	bool timestamps;
	bool partial; /* the stack or the interface finishes the checksum */
};

static __always_inline __u32 ip_length(const struct sending *o)
{
	return o->v6 ? 40 : 20;
}

static __always_inline __u32 tcp_length(const struct sending *o)
{
	return o->timestamps ? 32 : 20;
}

enum summing {
	SUM_DONE,    /* the packet's checksum is complete, or does not matter */
	SUM_PARTIAL, /* it is finished later, from byte l4 on, as is usual for UDP */
	SUM_ODD,     /* it is finished later, in another way */
};

static __always_inline enum summing summing(struct __sk_buff *ctx, __u32 l4)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	if (BPF_CORE_READ_BITFIELD(skb, ip_summed) != IP_SUMMED_PARTIAL)
		return SUM_DONE;
	if (skb->csum_offset != 6 || (unsigned long)skb->head + skb->csum_start != (unsigned long)skb->data + l4)
		return SUM_ODD;
	return SUM_PARTIAL;
}

/* Fills in the IP header except its lengths and checksum; addresses have 16 bytes. */
static __always_inline void segment_addresses(struct sending *o, bool v6, const __be32 from[4], const __be32 to[4])
{
	o->v6 = v6;
	if (v6) {
		o->h.ip[0] = bpf_htonl(6 << 28);
		__builtin_memcpy(&o->h.ip[2], from, 16);
		__builtin_memcpy(&o->h.ip[6], to, 16);
		o->addresses = sum_addresses6(from, to, 6);
	} else {
		o->h.ip[6] = bpf_htonl(0x4000); /* DF */
		o->h.ip[8] = from[3];
		o->h.ip[9] = to[3];
		o->addresses = sum_addresses4(from[3], to[3], 6);
	}
}

/* Fills in the ports and options; the caller fills in the rest of the TCP header. */
static __always_inline void segment_ports(struct sending *o, __be16 source, __be16 destination, bool timestamps, __u32 tsval,
					  __u32 tsecr)
{
	o->h.tcp.source = source;
	o->h.tcp.destination = destination;
	o->timestamps = timestamps;
	o->h.tcp.offset = timestamps ? 0x80 : 0x50;
	o->h.tcp.nop_nop_ts = bpf_htonl(0x0101080a);
	o->h.tcp.tsval = bpf_htonl(tsval);
	o->h.tcp.tsecr = bpf_htonl(tsecr);
}

/* Gives the packet the size of a segment with `length` bytes of payload and all headers. */
static __always_inline long segment_room(struct __sk_buff *ctx, const struct sending *o, __u32 length)
{
	__u32 size = ETHERNET_HEADER + ip_length(o) + tcp_length(o) + length;
	long error;

	if (!o->partial)
		return bpf_skb_change_tail(ctx, size, 0);
	/* The order matters: no step may exceed the interface's MTU. */
	error = bpf_skb_change_tail(ctx, size - TCP_AHEAD, 0);
	return error ? error : bpf_skb_adjust_room(ctx, TCP_AHEAD, BPF_ADJ_ROOM_NET, 0);
}

/* Writes the headers of a segment with `length` bytes of payload, whose sum is `payload`. */
static __always_inline long segment_headers(struct __sk_buff *ctx, struct sending *o, __u32 length, __u64 payload)
{
	__u32 bytes = tcp_length(o) + length;
	const __u32 *word = o->h.tcp.words;
	__u64 sum = o->addresses + bpf_htons(bytes) + word[0] + word[1];

	o->h.tcp.check = 0;
	if (o->partial) {
		o->h.tcp.check = sum_fold(sum + o->h.tcp.halves[4]);
	} else {
		sum += (__u64)word[2] + word[3] + word[4] + payload;
		if (o->timestamps)
			sum += (__u64)word[5] + word[6] + word[7];
		o->h.tcp.check = ~sum_fold(sum);
	}
	if (o->v6) {
		o->h.ip[1] = bpf_htonl(bytes << 16 | 6 << 8 | 64);
		return bpf_skb_store_bytes(ctx, ETHERNET_HEADER, &o->h.ip[0], o->timestamps ? 72 : 60, 0);
	} else {
		o->h.ip[5] = bpf_htonl(0x45000000 | (20 + bytes));
		o->h.ip[7] = bpf_htonl(64 << 24 | 6 << 16);
		sum = (__u64)o->h.ip[5] + o->h.ip[6] + o->h.ip[7] + o->h.ip[8] + o->h.ip[9];
		o->h.ip[7] |= (__u32)bpf_htonl((__u16)~bpf_ntohs(sum_fold(sum)));
		return bpf_skb_store_bytes(ctx, ETHERNET_HEADER, &o->h.ip[5], o->timestamps ? 52 : 40, 0);
	}
}

/* Writes a segment with `length` (1 to SUM_MAX) bytes of payload from `offset` in the ring. */
static __always_inline long segment_write(struct __sk_buff *ctx, struct sending *o, __u8 *ring, __u32 offset, __u32 length)
{
	long error = segment_headers(ctx, o, length, o->partial ? 0 : sum_ring(offset, length));

	if (error)
		return error;
	return bpf_skb_store_bytes(ctx, ETHERNET_HEADER + ip_length(o) + tcp_length(o), ring + offset, length, 0);
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * A copy of a segment's bytes outside the packet, where the verifier lets a program read them
 * freely, and the segment's checksum.
 */
#pragma once

#include "checksum.h"
#include "dns.h"
#include "parse.h"

/* A segment to the client. */
struct answer {
	__u32 seq;
	__u32 ack;
	__u16 window;
	__u8 flags;
	__u8 words; /* of options: 0, 1, 3, 4 or 5 */
	__be32 option[5];
	__u32 position; /* in the ring, of the reply that contains its payload */
	__u32 offset;	/* of the payload in the reply */
	__u32 payload;	/* its length */
};

/* What XDP writes before a frame for tc ingress. UNSENT_MARK: the frame has only its headers.
 * SPLIT_MARK: it has only the first of several queries. SOCKET_MARK, which stands alone: XDP has
 * seen the segment's socket, so the segment is not ours. */
#define UNSENT_MARK 0x6e617772
#define SPLIT_MARK 0x6e617370
#define SOCKET_MARK 0x6e61736b
struct unsent {
	__u32 mark;
	__u32 position; /* in the ring, of the whole reply, or of the segment's queries */
	__u32 offset;	/* of the payload in the reply */
	__u32 payload;	/* or the bytes of all queries */
	union {
		__u32 headers; /* length of those of IP and TCP */
		__u32 count;   /* of queries */
	};
};

#define TCP_HEADER_MAX 60
/* The payload begins here, whatever the length of the TCP header before it. */
#define SCRATCH_PAYLOAD TCP_HEADER_MAX

/* The working memory for one packet. The stack is too small for the bytes, and the verifier
 * tracks every word of it. */
struct scratch {
	struct incoming in;
	struct flow_key key;
	struct query query;
	struct answer answer;
	struct flow fresh;
	struct unsent split; /* count 0: the segment has at most one query */
	__u8 bytes[SCRATCH_PAYLOAD + QUERY_ROOM];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

static __always_inline struct scratch *scratch_own(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&scratch, &key);
}

/* Makes the compiler read the scratch again, so that the verifier need not follow every path on
 * which a value got there. */
static __always_inline void forget(void)
{
	asm volatile("" ::: "memory");
}

static __always_inline struct query_room *scratch_query(struct scratch *scratch)
{
	return (struct query_room *)&scratch->bytes[SCRATCH_PAYLOAD];
}

/* The sum of `length` bytes of the scratch from `at` on. Zeros must follow them up to a multiple
 * of four. */
static __always_inline __u64 scratch_sum(struct scratch *scratch, __u32 at, __u32 length)
{
	__u64 sum = 0;

	length = (length + 3) & ~3;
	for (int i = 0; i < QUERY_ROOM / SUM_CHUNK && length > SUM_CHUNK; i++) {
		if (bounded(at) > SCRATCH_PAYLOAD + QUERY_MAX)
			return 0;
		sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)&scratch->bytes[at], SUM_CHUNK, 0);
		at += SUM_CHUNK;
		length -= SUM_CHUNK;
	}
	if (bounded(at) > SCRATCH_PAYLOAD + QUERY_MAX || bounded(length) > SUM_CHUNK)
		return 0;
	return sum + (__u32)bpf_csum_diff(0, 0, (__be32 *)&scratch->bytes[at], length, 0);
}

static __always_inline void scratch_pad(struct scratch *scratch, __u32 at)
{
	if (at <= SCRATCH_PAYLOAD + QUERY_MAX + DNS_OPT)
		*(__u32 *)&scratch->bytes[at] = 0;
}

/* The folded sum of `length` bytes of the packet, computed in pieces. For segments that are too
 * long for a query. */
__noinline __u32 packet_sum(struct xdp_md *ctx, __u32 at, __u32 length)
{
	struct scratch *scratch = scratch_own();
	__u64 sum = 0;

	if (!scratch)
		return 0;
	for (int i = 0; i < 65536 / SUM_CHUNK && length >= SUM_CHUNK; i++) {
		if (bpf_xdp_load_bytes(ctx, at, scratch->bytes, SUM_CHUNK))
			return 0;
		sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)scratch->bytes, SUM_CHUNK, 0);
		at += SUM_CHUNK;
		length -= SUM_CHUNK;
	}
	if (WITHIN(length, 1, SUM_CHUNK - 1)) {
		if (bpf_xdp_load_bytes(ctx, at, scratch->bytes, length))
			return 0;
		scratch_pad(scratch, length);
		sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)scratch->bytes, (length + 3) & ~3, 0);
	}
	return sum_fold(sum);
}

/* Whether the checksum of a segment with data is right, or is the sum of the pseudo-header
 * alone, which offloads leave. Afterwards the scratch has the payload if it is at most QUERY_MAX
 * bytes long. */
static __always_inline int payload_take(struct xdp_md *ctx, struct scratch *scratch)
{
	const struct incoming *in = &scratch->in;
	__u32 length = in->length, size = in->header + length;
	__u64 sum = bpf_htons(size);
	__u32 at;

	sum += in->ipv6 ? sum_addresses6(in->who.client, in->who.server, IP_TCP) :
			  sum_addresses4(in->who.client[3], in->who.server[3], IP_TCP);
	if (length > QUERY_MAX)
		return in->checksum == sum_fold(sum) ||
		       sum_fold(sum + packet_sum(ctx, in->transport, size)) == 0xffff;

	at = SCRATCH_PAYLOAD - in->header;
	if (at > SCRATCH_PAYLOAD || size < sizeof(struct tcp_header) || size > TCP_HEADER_MAX + QUERY_MAX ||
	    bpf_xdp_load_bytes(ctx, in->transport, &scratch->bytes[at], size))
		return 0;
	if (in->checksum == sum_fold(sum))
		return 1;
	scratch_pad(scratch, SCRATCH_PAYLOAD + length);
	return sum_fold(sum + scratch_sum(scratch, at, size)) == 0xffff;
}

/* Cuts `bytes` bytes off the front of a segment's payload; 0 if the rest cannot be read. A
 * separate function, so that the verifier checks it once. */
__noinline int payload_trim(struct xdp_md *ctx, __u32 bytes)
{
	struct scratch *scratch = scratch_own();
	__u32 length;

	if (!scratch || bytes > scratch->in.length)
		return 0;
	length = scratch->in.length - bytes;
	scratch->in.seq += bytes;
	scratch->in.length = length;
	scratch->in.trimmed = bytes;
	return !WITHIN(length, 1, QUERY_MAX) ||
	       !bpf_xdp_load_bytes(ctx, scratch->in.transport + scratch->in.header + bytes, &scratch->bytes[SCRATCH_PAYLOAD], length);
}

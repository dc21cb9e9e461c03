/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The Internet checksum (RFC 1071). Words are added as they lie in memory, in 64 bits, so no carry
 * is lost before the fold.
 */
#pragma once

/* The sum in 16 bits, not complemented. */
static __always_inline __u16 sum_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* The sum of a pseudo-header without the length (RFC 9293 section 3.1, RFC 8200 section 8.1). */
static __always_inline __u64 sum_addresses4(__be32 from, __be32 to, __u8 protocol)
{
	return (__u64)from + to + bpf_htons(protocol);
}

static __always_inline __u64 sum_addresses6(const __be32 from[4], const __be32 to[4], __u8 protocol)
{
	return (__u64)from[0] + from[1] + from[2] + from[3] + to[0] + to[1] + to[2] + to[3] + bpf_htons(protocol);
}

/* Before Linux 6.13, bpf_csum_diff took at most this many bytes a call. */
#define SUM_CHUNK 512
#define SUM_MAX 16895
#define SUM_CHUNKS (SUM_MAX / SUM_CHUNK)

/* The sum of `length` bytes (at most SUM_MAX) from `offset` in the ring. The first byte counts
 * as even. A separate function, so that the verifier checks it once for all callers. */
__noinline __u64 sum_ring(__u32 offset, __u32 length)
{
	__u8 *bytes = ring_bytes();
	__u64 sum = 0;

	if (!bytes || offset > RING_SIZE + RING_MARGIN / 2 || length > SUM_MAX)
		return 0;
	for (__u32 i = 0; i < SUM_CHUNKS && length >= SUM_CHUNK; i++) {
		sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)(bytes + offset), SUM_CHUNK, 0);
		offset += SUM_CHUNK;
		length -= SUM_CHUNK;
	}
	sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)(bytes + offset), length & (SUM_CHUNK - 4), 0);
	offset += length & (SUM_CHUNK - 4);
	if (length & 2) {
		sum += bpf_htons(bytes[offset] << 8 | bytes[offset + 1]);
		offset += 2;
	}
	if (length & 1)
		sum += bpf_htons(bytes[offset] << 8);
	return sum;
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * DNS messages as far as the gateway reads them (RFC 1035 section 4, RFC 6891 section 6.1): whether
 * a segment is one whole query, its EDNS size, and the list of names with large replies.
 *
 * A query lies in a map's value, after its two bytes of length (RFC 7766 section 8), and QUERY_ROOM
 * bytes of the value follow from there. Length fields are checked against the query's own length.
 * Where the verifier cannot follow that, a mask limits the value. Loops are separate functions, so
 * that the verifier checks them once.
 */
#pragma once

#include "maps.h"
#include "siphash.h"

#define DNS_PREFIX 2
#define DNS_QUESTION (DNS_PREFIX + 12)
#define DNS_OPT 11 /* an OPT record without options */
#define DNS_NAME_MAX 255
#define QUERY_MIN (DNS_QUESTION + 5)
#define QUERY_MAX 1024
#define QUERY_ROOM 2048

#define DNS_TYPE_OPT 41
#define DNS_TYPE_IXFR 251
#define DNS_TYPE_AXFR 252
#define DNS_OPTION_KEEPALIVE 11 /* RFC 7828 section 3.1 */
#define DNS_OPTIONS_MAX 32	/* that are read */

struct query_room {
	__u8 bytes[QUERY_ROOM];
};

struct query {
	__u32 question; /* its length in bytes */
	__be16 id;
	__u8 transfer; /* asks for a zone transfer */
	__u8 opt;
	__u8 keepalive; /* asks how long the server keeps connections open */
};

/* Keeps a number below QUERY_ROOM / 2 in a way that the compiler does not remove. */
#define WITHIN_QUERY(at)                                \
	({                                              \
		__u32 within = (at);                    \
		asm volatile("%0 &= 1023" : "+r"(within)); \
		within;                                 \
	})

static __always_inline __u16 dns_u16(const __u8 *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

/* The length of the first question of a query of `length` bytes; 0 if it is not whole or its
 * name is compressed. */
__noinline int question_length(const struct query_room *room, __u32 length)
{
	__u32 at = DNS_QUESTION;

	if (!room)
		return 0;
	/* A name of 255 bytes has at most 127 labels and the root (RFC 1035 section 2.3.4). */
	for (int i = 0; i < 128; i++) {
		__u32 label;

		if (at >= length || at >= QUERY_MAX)
			return 0;
		label = room->bytes[at];
		at += 1 + label;
		if (label > 63)
			return 0;
		if (label == 0) {
			if (at - DNS_QUESTION > DNS_NAME_MAX || at + 4 > length)
				return 0;
			return at + 4 - DNS_QUESTION;
		}
	}
	return 0;
}

/* Whether an OPT record's options, from `at` to the end of a query of `length` bytes, contain
 * edns-tcp-keepalive. */
__noinline int options_keepalive(const struct query_room *room, __u32 at, __u32 length)
{
	if (!room)
		return 0;
	for (int i = 0; i < DNS_OPTIONS_MAX; i++) {
		const __u8 *option;

		if (at + 4 > length || at >= QUERY_MAX)
			return 0;
		option = room->bytes + at;
		if (dns_u16(option) == DNS_OPTION_KEEPALIVE)
			return 1;
		at += 4 + dns_u16(option + 2);
	}
	return 0;
}

/* Whether a segment's payload of `length` bytes is what PROTOCOL.md calls a whole query. */
static __always_inline int query_read(const struct query_room *room, __u32 length, struct query *query)
{
	const __u8 *message = room->bytes + DNS_PREFIX, *type, *rest;
	__u32 end;

	if (length < QUERY_MIN || length > QUERY_MAX || dns_u16(room->bytes) != length - DNS_PREFIX)
		return 0;
	/* QR, opcode and TC are 0; one question, no answer or authority, at most one additional record. */
	if (message[2] & 0xfa || dns_u16(message + 4) != 1 || dns_u16(message + 6) || dns_u16(message + 8) ||
	    dns_u16(message + 10) > 1)
		return 0;
	query->question = question_length(room, length);
	if (!query->question)
		return 0;
	end = DNS_QUESTION + query->question;
	type = room->bytes + WITHIN_QUERY(end - 4);
	rest = room->bytes + WITHIN_QUERY(end);
	query->id = *(__be16 *)message;
	query->transfer = type[0] == 0 && (type[1] == DNS_TYPE_AXFR || type[1] == DNS_TYPE_IXFR);
	query->opt = message[11];
	query->keepalive = 0;
	if (!query->opt)
		return end == length;
	if (end + DNS_OPT > length || rest[0] || dns_u16(rest + 1) != DNS_TYPE_OPT || rest[6] ||
	    end + DNS_OPT + dns_u16(rest + 9) != length)
		return 0;
	query->keepalive = options_keepalive(room, end + DNS_OPT, length);
	return 1;
}

/* Raises the EDNS payload size of a query to `size` bytes if it is lower; query_read must have read
 * the query. Returns the query's new length, which is at most 11 bytes more. */
static __always_inline __u32 query_raise_edns(struct query_room *room, __u32 length, const struct query *query, __u16 size)
{
	__u8 *opt = room->bytes + WITHIN_QUERY(DNS_QUESTION + query->question);

	if (query->opt) {
		if (dns_u16(opt + 3) < size) {
			opt[3] = size >> 8;
			opt[4] = size;
		}
		return length;
	}
	room->bytes[DNS_PREFIX + 11] = 1;
	opt[0] = 0;
	opt[1] = 0;
	opt[2] = DNS_TYPE_OPT;
	opt[3] = size >> 8;
	opt[4] = size;
	opt[5] = 0;
	opt[6] = 0;
	opt[7] = 0;
	opt[8] = 0;
	opt[9] = 0;
	opt[10] = 0;
	return length + DNS_OPT;
}

#define EACH_BYTE(byte) (0x0101010101010101ULL * (byte))

/* The first `bytes` (0 to 7) of eight, in memory order. */
static __always_inline __u64 first_bytes(__u32 bytes)
{
	return ~(~0ULL << bytes * 8);
}

/* Eight bytes with their ASCII letters in lower case. Length octets are below 64, so they are no
 * letters. */
static __always_inline __u64 lower_case(__u64 word)
{
	__u64 low = word & EACH_BYTE(0x7f);
	__u64 from_a = low + EACH_BYTE(0x80 - 'A'), behind_z = low + EACH_BYTE(0x7f - 'Z');

	return word | ((from_a ^ behind_z) & ~word & EACH_BYTE(0x80)) >> 2;
}

/* The number that represents a question in an entry and on the list of large replies: SipHash-2-4
 * of the name in lower case, the type and the class. */
__noinline __u64 question_hash(const struct cookie_key *key, const struct query_room *room, __u32 question)
{
	__u32 name = question - 4, words = name / 8, left = name % 8;
	const __u8 *bytes;
	struct siphash hash;
	__u64 word;

	if (!key || !room || name > DNS_NAME_MAX)
		return 0;
	siphash_start(&hash, key);
	bytes = room->bytes + DNS_QUESTION;
	for (__u32 i = 0; i < DNS_NAME_MAX / 8 && i < words; i++, bytes += 8)
		siphash_word(&hash, lower_case(*(const __u64 *)bytes));
	word = *(const __u64 *)bytes;
	word = (lower_case(word) & first_bytes(left)) | (word & ~first_bytes(left));
	left += 4;
	if (left >= 8) {
		siphash_word(&hash, word);
		word = *(const __u64 *)(bytes + 8);
		left -= 8;
	}
	return siphash_end(&hash, (word & first_bytes(left)) | (__u64)question << 56);
}

/* Whether the name of the question with this hash is on the list of large replies. */
static __always_inline int large_name(const struct settings *s, __u64 hash, __u64 now)
{
	__u64 *until;

	if (!s->large_ns)
		return 0;
	until = bpf_map_lookup_elem(&large, &hash);
	return until && now < *until;
}

/* Puts the name of a query of `length` bytes, which lies at `query` in a map's value, on the
 * list. */
static __always_inline void large_name_add(const struct settings *s, const __u8 *query, __u32 length, __u64 now)
{
	const struct query_room *room = (const struct query_room *)query;
	__u32 question = s->large_ns && length <= QUERY_MAX ? question_length(room, length) : 0;
	__u64 hash, until = now + s->large_ns;

	if (!question)
		return;
	hash = question_hash(&s->keys[0], room, question);
	bpf_map_update_elem(&large, &hash, &until, BPF_ANY);
}

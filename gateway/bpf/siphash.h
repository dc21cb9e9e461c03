/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012), over whole 64-bit
 * words.
 */
#pragma once

#include "types.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are read as they lie in memory, which is right on little-endian machines alone"
#endif

struct siphash {
	__u64 v0, v1, v2, v3;
};

static __always_inline __u64 rotate_left(__u64 value, int bits)
{
	return value << bits | value >> (64 - bits);
}

static __always_inline void siphash_round(struct siphash *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate_left(s->v1, 13) ^ s->v0;
	s->v3 = rotate_left(s->v3, 16) ^ s->v2;
	s->v0 = rotate_left(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = rotate_left(s->v1, 17) ^ s->v2;
	s->v3 = rotate_left(s->v3, 21) ^ s->v0;
	s->v2 = rotate_left(s->v2, 32);
}

static __always_inline void siphash_start(struct siphash *s, const struct cookie_key *key)
{
	s->v0 = key->k0 ^ 0x736f6d6570736575;
	s->v1 = key->k1 ^ 0x646f72616e646f6d;
	s->v2 = key->k0 ^ 0x6c7967656e657261;
	s->v3 = key->k1 ^ 0x7465646279746573;
}

/* Takes the next eight bytes as a little-endian word. */
static __always_inline void siphash_word(struct siphash *s, __u64 word)
{
	s->v3 ^= word;
	siphash_round(s);
	siphash_round(s);
	s->v0 ^= word;
}

/* `last` holds the remaining input, at most seven bytes, and the input's length in its top byte. */
static __always_inline __u64 siphash_end(struct siphash *s, __u64 last)
{
	siphash_word(s, last);
	s->v2 ^= 0xff;
	siphash_round(s);
	siphash_round(s);
	siphash_round(s);
	siphash_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

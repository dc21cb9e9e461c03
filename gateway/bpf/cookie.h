/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The SYN cookie (PROTOCOL.md, "The cookie"). It puts what the SYN offered, and the proof that the
 * client saw our SYN/ACK, into our initial sequence number and timestamp.
 */
#pragma once

#include "siphash.h"

#define COOKIE_SLOT_NS 32000000000ULL
/* How long the previous key is accepted: the lifetime of a cookie, plus one slot for clocks that
 * differ. */
#define COOKIE_PREVIOUS_NS (3 * COOKIE_SLOT_NS)
#define COOKIE_MAC 0x07ffffff
#define COOKIE_TAG 0xfff
/* 0 in a SYN/ACK's TSval and 1 in that of an entry's segments. A client that echoes 1 has
 * received one of those. */
#define COOKIE_HEARD (1 << 12)
#define MSS_MIN 88
#define MSS_MAX 16383

/* The input of the hash, all big-endian. */
struct cookie_message {
	__be32 client[4];
	__be32 server[4];
	__be16 client_port;
	__be16 server_port;
	__be32 client_isn;
	__be32 slot;
	__be32 class; /* of the MSS */
} __attribute__((aligned(8)));

/* What a SYN offers. */
struct offer {
	__u16 mss;
	__u8 wscale; /* WSCALE_NONE: none */
	__u8 sack;
	__u8 timestamps;
};

/* A separate function, because one copy of it uses less of the processor's cache than three. */
__noinline __u64 cookie_hash(const struct cookie_key *key, const struct cookie_message *message)
{
	const __u64 *words = (const __u64 *)message;
	struct siphash hash;

	if (!key || !message)
		return 0;
	siphash_start(&hash, key);
#pragma clang loop unroll(disable)
	for (int i = 0; i < 6; i++)
		siphash_word(&hash, words[i]);
	return siphash_end(&hash, 48ULL << 56);
}

/* The MSS values that the classes stand for if the client's segment has no timestamps, which hold
 * the exact value. */
static const __u16 cookie_mss[16] = { 88,   256,  536,  1200, 1220, 1240, 1300, 1360,
				      1400, 1412, 1420, 1440, 1452, 1460, 8940, 8960 };

static __always_inline __u32 cookie_class(__u16 mss)
{
	__u32 class = 0;

	for (__u32 i = 1; i < 16; i++)
		if (cookie_mss[i] <= mss)
			class = i;
	return class;
}

static __always_inline __u16 cookie_mss_of(__u32 class)
{
	__u16 mss = cookie_mss[0];

	/* Unrolled to constants, so that no table lookup is needed. */
	for (__u32 i = 1; i < 16; i++)
		if (class == i)
			mss = cookie_mss[i];
	return mss;
}

static __always_inline __u32 cookie_slot(const struct settings *settings, __u64 now)
{
	return (now + settings->wall_offset_ns) / COOKIE_SLOT_NS;
}

/* Our initial sequence number and TSval for a SYN. `message` holds the addresses, the ports and
 * the client's initial sequence number; `now` is the boot clock. The offer's MSS is reduced to
 * what the cookie can hold. */
static __always_inline __u32 cookie_make(const struct settings *settings, struct cookie_message *message,
					 __u64 now, struct offer *offer, __u32 *tsval)
{
	__u32 slot = cookie_slot(settings, now);
	__u32 class, value = 0;
	__u64 hash;

	if (offer->mss < MSS_MIN)
		offer->mss = MSS_MIN;
	class = cookie_class(offer->mss);
	if (offer->timestamps) {
		if (offer->mss > MSS_MAX)
			offer->mss = MSS_MAX;
		value = (__u32)offer->mss << 18 | (__u32)(offer->wscale & 15) << 14 | (__u32)(offer->sack & 1) << 13;
	} else {
		offer->mss = cookie_mss_of(class);
		offer->wscale = 15;
		offer->sack = 0;
	}
	message->class = bpf_htonl(class);
	message->slot = bpf_htonl(slot);
	hash = cookie_hash(&settings->keys[0], message);
	*tsval = offer->timestamps ? value | (hash >> 32 & COOKIE_TAG) : 0;
	return slot << 31 | class << 27 | (hash & COOKIE_MAC);
}

/* Whether `cookie` is one that we made for `message` (as in cookie_make). If so, `offer` is what
 * the SYN offered. `tsecr`, our TSval as the client returned it, counts only if `timestamps` is
 * set. A client may leave out timestamps that it offered, and then only its MSS is known. */
static __always_inline int cookie_check(const struct settings *settings, struct cookie_message *message,
					__u64 now, __u32 cookie, int timestamps, __u32 tsecr, struct offer *offer)
{
	__u32 slot = cookie_slot(settings, now);
	__u32 class = cookie >> 27 & 15;

	/* The client's connection has an entry, or had one. */
	if (timestamps && tsecr & COOKIE_HEARD)
		return 0;
	message->class = bpf_htonl(class);
	if ((slot & 1) != cookie >> 31)
		slot--; /* so it can only come from the previous slot */
	message->slot = bpf_htonl(slot);
#pragma clang loop unroll(disable)
	for (int i = 0; i < EPOCHS; i++) {
		__u64 hash;

		/* The previous key need only be tried while its last cookies are valid. */
		if (i && now + settings->wall_offset_ns >= settings->previous_until_ns)
			break;
		hash = cookie_hash(&settings->keys[i], message);

		if ((hash ^ cookie) & COOKIE_MAC)
			continue;
		if ((hash >> 32 ^ tsecr) & COOKIE_TAG || tsecr >> 18 < MSS_MIN)
			timestamps = 0; /* not ours */
		offer->timestamps = !!timestamps;
		offer->mss = timestamps ? tsecr >> 18 : cookie_mss_of(class);
		offer->wscale = timestamps ? tsecr >> 14 & 15 : 15;
		offer->sack = timestamps ? tsecr >> 13 & 1 : 0;
		return 1;
	}
	return 0;
}

/* How many slots back, in steps of two, an expired cookie is still recognised: about nine
 * minutes. */
#define COOKIE_OLD 8

/* Whether `cookie` is one that we made for `message` (as in cookie_check) and that has expired. */
static __always_inline int cookie_was(const struct settings *settings, struct cookie_message *message, __u64 now,
				      __u32 cookie, int timestamps, __u32 tsecr)
{
	__u32 slot = cookie_slot(settings, now), class = cookie >> 27 & 15;
	__u64 until = settings->previous_until_ns;
	__u32 changed = until > COOKIE_PREVIOUS_NS ? (until - COOKIE_PREVIOUS_NS) / COOKIE_SLOT_NS : 0;

	if (timestamps && tsecr & COOKIE_HEARD)
		return 0;
	message->class = bpf_htonl(class);
	if ((slot & 1) != cookie >> 31)
		slot--;
#pragma clang loop unroll(disable)
	for (int i = 0; i < COOKIE_OLD; i++) {
		__u64 hash;

		slot -= 2;
		message->slot = bpf_htonl(slot);
		hash = cookie_hash((__s32)(slot - changed) < 0 ? &settings->keys[1] : &settings->keys[0], message);
		if (!((hash ^ cookie) & COOKIE_MAC))
			return 1;
	}
	return 0;
}

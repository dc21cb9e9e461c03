/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The SYN cookie (PROTOCOL.md, "The cookie"): what the SYN offered, and proof that our SYN/ACK was seen,
 * in our initial sequence number and our timestamp.
 */
#pragma once

#include "siphash.h"

#define COOKIE_SLOT_NS 32000000000ULL
/* How long the key before is accepted: as long as a cookie lives, and clocks that differ by a slot. */
#define COOKIE_PREVIOUS_NS (3 * COOKIE_SLOT_NS)
#define COOKIE_MAC 0x07ffffff
#define COOKIE_TAG 0xfff
/* 0 in a SYN/ACK's TSval, 1 in those of an entry's segments: a client that echoes it has had one of them. */
#define COOKIE_HEARD (1 << 12)
#define MSS_MIN 88
#define MSS_MAX 16383

/* The hash's input, all big-endian. */
struct cookie_message {
	__be32 client[4];
	__be32 server[4];
	__be16 client_port;
	__be16 server_port;
	__be32 client_isn;
	__be32 slot;
	__be32 offer; /* our TSval with tag 0, or the class */
} __attribute__((aligned(8)));

/* What a SYN offers. */
struct offer {
	__u16 mss;
	__u8 wscale; /* WSCALE_NONE: none */
	__u8 sack;
	__u8 timestamps;
};

/* A function of its own, as one copy of it is better for the processor's cache than three. */
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

/* The MSS values that a class stands for where there are no timestamps to hold the exact one. */
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

	/* Unrolled to constants, so that no table has to be looked up. */
	for (__u32 i = 1; i < 16; i++)
		if (class == i)
			mss = cookie_mss[i];
	return mss;
}

static __always_inline __u32 cookie_slot(const struct settings *settings, __u64 now)
{
	return (now + settings->wall_offset_ns) / COOKIE_SLOT_NS;
}

/* Our initial sequence number and TSval for a SYN. `message` holds addresses, ports and the client's initial
 * sequence number; `now` is the boot clock; the offer's MSS is cut down to what the cookie can hold. */
static __always_inline __u32 cookie_make(const struct settings *settings, struct cookie_message *message,
					 __u64 now, struct offer *offer, __u32 *tsval)
{
	__u32 slot = cookie_slot(settings, now);
	__u32 class = 0, value = 0;
	__u64 hash;

	if (offer->mss < MSS_MIN)
		offer->mss = MSS_MIN;
	if (offer->timestamps) {
		if (offer->mss > MSS_MAX)
			offer->mss = MSS_MAX;
		value = (__u32)offer->mss << 18 | (__u32)(offer->wscale & 15) << 14 | (__u32)(offer->sack & 1) << 13;
		message->offer = bpf_htonl(value);
	} else {
		class = cookie_class(offer->mss);
		offer->mss = cookie_mss_of(class);
		offer->wscale = 15;
		offer->sack = 0;
		message->offer = bpf_htonl(class);
	}
	message->slot = bpf_htonl(slot);
	hash = cookie_hash(&settings->keys[0], message);
	*tsval = offer->timestamps ? value | (hash >> 32 & COOKIE_TAG) : 0;
	return slot << 31 | class << 27 | (hash & COOKIE_MAC);
}

/* Whether `cookie` is one of ours for `message` (as in cookie_make); then `offer` is what the SYN offered.
 * `tsecr` counts if `timestamps`: it is our TSval, back from the client. */
static __always_inline int cookie_check(const struct settings *settings, struct cookie_message *message,
					__u64 now, __u32 cookie, int timestamps, __u32 tsecr, struct offer *offer)
{
	__u32 slot = cookie_slot(settings, now);
	__u32 class = cookie >> 27 & 15;

	if (timestamps) {
		/* Never made by us: a class, the bit that is 0, or an MSS below the least. */
		if (class || tsecr & COOKIE_HEARD || tsecr >> 18 < MSS_MIN)
			return 0;
		message->offer = bpf_htonl(tsecr & ~(__u32)COOKIE_TAG);
	} else {
		message->offer = bpf_htonl(class);
	}
	if ((slot & 1) != cookie >> 31)
		slot--; /* so it can only be of the slot before */
	message->slot = bpf_htonl(slot);
#pragma clang loop unroll(disable)
	for (int i = 0; i < EPOCHS; i++) {
		__u64 hash;

		/* The key before is worth guessing for as long as its last cookies live alone. */
		if (i && now + settings->wall_offset_ns >= settings->previous_until_ns)
			break;
		hash = cookie_hash(&settings->keys[i], message);

		if ((hash ^ cookie) & COOKIE_MAC || (timestamps && ((hash >> 32 ^ tsecr) & COOKIE_TAG)))
			continue;
		offer->timestamps = !!timestamps;
		offer->mss = timestamps ? tsecr >> 18 : cookie_mss_of(class);
		offer->wscale = timestamps ? tsecr >> 14 & 15 : 15;
		offer->sack = timestamps ? tsecr >> 13 & 1 : 0;
		return 1;
	}
	return 0;
}

/* How many slots back, in twos, a cookie that is too old is still told: about nine minutes. */
#define COOKIE_OLD 8

/* Whether `cookie` is one of ours for `message` (as in cookie_check) that is too old. */
static __always_inline int cookie_was(const struct settings *settings, struct cookie_message *message, __u64 now,
				      __u32 cookie, int timestamps, __u32 tsecr)
{
	__u32 slot = cookie_slot(settings, now), class = cookie >> 27 & 15;
	__u64 until = settings->previous_until_ns;
	__u32 changed = until > COOKIE_PREVIOUS_NS ? (until - COOKIE_PREVIOUS_NS) / COOKIE_SLOT_NS : 0;

	if (timestamps && (class || tsecr & COOKIE_HEARD || tsecr >> 18 < MSS_MIN))
		return 0;
	message->offer = timestamps ? bpf_htonl(tsecr & ~(__u32)COOKIE_TAG) : bpf_htonl(class);
	if ((slot & 1) != cookie >> 31)
		slot--;
#pragma clang loop unroll(disable)
	for (int i = 0; i < COOKIE_OLD; i++) {
		__u64 hash;

		slot -= 2;
		message->slot = bpf_htonl(slot);
		hash = cookie_hash((__s32)(slot - changed) < 0 ? &settings->keys[1] : &settings->keys[0], message);
		if (!((hash ^ cookie) & COOKIE_MAC) && !(timestamps && (hash >> 32 ^ tsecr) & COOKIE_TAG))
			return 1;
	}
	return 0;
}

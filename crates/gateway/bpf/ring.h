/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The ring: queries, and later replies, as bytes, until newer ones need the room.
 *
 * A place is taken by an atomic add on the head, in units; nothing is ever given back. What was stored at a
 * position is there while fewer than RING_SIZE bytes were taken since. A place that begins near the end goes on
 * into the margin, so nothing is split; the units at the ring's start that it counts for stay unused.
 */
#pragma once

#define RING_UNITS (RING_SIZE / RING_UNIT)
/* A writer that was interrupted may be this far behind the head; what is about to be overwritten counts as gone. */
#define RING_SLACK_UNITS (RING_MARGIN / RING_UNIT)

/* The ring's bytes. */
static __always_inline __u8 *ring_bytes(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&ring, &key);
}

/* Takes room for `bytes` bytes. The position, in units. */
static __always_inline __u32 ring_take(struct ring_head *head, __u32 bytes)
{
	return __sync_fetch_and_add(&head->next, (bytes + RING_UNIT - 1) / RING_UNIT);
}

/* Whether what was stored at `position` is still there. */
static __always_inline bool ring_holds(const struct ring_head *head, __u32 position)
{
	return *(volatile const __u32 *)&head->next - position < RING_UNITS - RING_SLACK_UNITS;
}

/* Where a position is in the ring's bytes: at most RING_SIZE - RING_UNIT. */
static __always_inline __u32 ring_offset(__u32 position)
{
	return (position * RING_UNIT) & (RING_SIZE - 1);
}

static __always_inline struct ring_head *ring_top(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&ring_head, &key);
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The ring stores queries, and later replies, as bytes until newer ones need the room.
 *
 * An atomic add on the head takes a place, in units; nothing is ever given back. Data at a position
 * stays valid while fewer than RING_SIZE bytes were taken since. A place that begins near the end
 * continues into the margin, so nothing is split; the units that it covers at the ring's start stay
 * unused.
 */
#pragma once

#define RING_UNITS (RING_SIZE / RING_UNIT)
/* An interrupted writer may lag behind the head by this much. What is about to be overwritten
 * counts as gone. */
#define RING_SLACK_UNITS (RING_MARGIN / RING_UNIT)

/* The ring's bytes. */
static __always_inline __u8 *ring_bytes(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&ring, &key);
}

/* Takes room for `bytes` bytes, and returns its position in units. */
static __always_inline __u32 ring_take(struct ring_head *head, __u32 bytes)
{
	return __sync_fetch_and_add(&head->next, (bytes + RING_UNIT - 1) / RING_UNIT);
}

/* Whether the data stored at `position` is still there. */
static __always_inline bool ring_holds(const struct ring_head *head, __u32 position)
{
	return *(volatile const __u32 *)&head->next - position < RING_UNITS - RING_SLACK_UNITS;
}

/* The offset of a position in the ring's bytes: at most RING_SIZE - RING_UNIT. */
static __always_inline __u32 ring_offset(__u32 position)
{
	return (position * RING_UNIT) & (RING_SIZE - 1);
}

static __always_inline struct ring_head *ring_top(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&ring_head, &key);
}

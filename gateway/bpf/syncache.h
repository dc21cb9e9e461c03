/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The SYN-cache mode of the paper (section III; the names are those of FreeBSD's syncache): an
 * entry for each SYN, in as many buckets as the map has, with a limit for each bucket and for all
 * of them.
 */
#pragma once

#include "flow.h"

/* The one field of the kernel's struct that is needed: how many elements a map has. */
struct bpf_map {
	__u32 max_entries;
} __attribute__((preserve_access_index));

/* FNV-1a of the key. */
static __always_inline __u32 syncache_bucket(const struct flow_key *key)
{
	__u32 size = ((struct bpf_map *)&syncache_buckets)->max_entries;

	return size ? fnv1a((const __u8 *)key, sizeof(*key)) % size : 0;
}

/* Takes room for one more entry SYN, if there is any. */
static __always_inline int syncache_enter(const struct settings *s, const struct flow_key *key)
{
	__u32 bucket = syncache_bucket(key), zero = 0;
	__u32 *in_bucket = bpf_map_lookup_elem(&syncache_buckets, &bucket);
	__u32 *in_all = bpf_map_lookup_elem(&syncache_entries, &zero);

	if (!in_bucket || !in_all || *in_all >= s->syncache_limit || *in_bucket >= s->syncache_bucket_limit)
		return 0;
	__sync_fetch_and_add(in_bucket, 1);
	__sync_fetch_and_add(in_all, 1);
	return 1;
}

/* An entry stops being an entry SYN. */
static __always_inline void syncache_leave(const struct flow_key *key)
{
	__u32 bucket = syncache_bucket(key), zero = 0;
	__u32 *in_bucket = bpf_map_lookup_elem(&syncache_buckets, &bucket);
	__u32 *in_all = bpf_map_lookup_elem(&syncache_entries, &zero);

	/* A sweep of the user side counts both again, because entries that a full map forgets do
	 * not pass through here. */
	if (in_bucket && *in_bucket)
		__sync_fetch_and_add(in_bucket, -1);
	if (in_all && *in_all)
		__sync_fetch_and_add(in_all, -1);
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The maps. Sizes that are settings are set by the user side before loading; what stands here are the defaults.
 * All are pinned by the user side, so that a restart finds them.
 */
#pragma once

#include "types.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

/* Server addresses (IPv4 as ::ffff:a.b.c.d) to their index. */
struct server_key {
	__u8 address[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SERVERS_MAX);
	__type(key, struct server_key);
	__type(value, __u8);
} servers SEC(".maps");

/* Connections, from their query on. When full, the one that is longest unused goes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* Connections with several open queries. When full, such connections are the kernel's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct flow_key);
	__type(value, struct opens);
} opens SEC(".maps");

/* Queries and replies, as bytes; one element, of RING_SIZE + RING_MARGIN bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, RING_MARGIN + (1 << 24));
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring_head);
} ring_head SEC(".maps");

/* Rates of sources: an IPv4 address, or the first 64 bits of an IPv6 address. */
struct source_key {
	__u64 prefix;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct source_key);
	__type(value, struct source);
} sources SEC(".maps");

/* Sources that the kernel has connections of. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct source_key);
	__type(value, struct adopter);
} adopters SEC(".maps");

/* Clients (IPv4 as ::ffff:a.b.c.d) whose path carries less than the interface. */
struct path_key {
	__u8 client[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct path_key);
	__type(value, struct path);
} paths SEC(".maps");

/* Until when any of them counts (boot clock, ns), so that nobody looks where nothing is. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} paths_end SEC(".maps");

/* Names (64 bits of a keyed hash over name in lower case, type and class) with large replies, and until when (boot clock, ns). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} large SEC(".maps");

/* SYN-cache mode: entries in each bucket. max_entries is the setting hashsize. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, __u32);
} syncache_buckets SEC(".maps");

/* The sum of the buckets. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} syncache_entries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_END);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LATENCIES + 1);
	__type(key, __u32);
	__type(value, __u64);
} latencies SEC(".maps");

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The maps. The user side sets sizes that are settings before loading; the values here are the
 * defaults. It also pins all maps, so that a restart finds them.
 */
#pragma once

#include "types.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

/* Server addresses (IPv4 as ::ffff:a.b.c.d), and the index of each. */
struct server_key {
	__u8 address[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SERVERS_MAX);
	__type(key, struct server_key);
	__type(value, __u8);
} servers SEC(".maps");

/* Connections, from their query on. When the map is full, the least recently used one is
 * removed. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* Connections with several open queries. When the map is full, the kernel gets further ones. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OPENS);
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

/* Rates by source: an IPv4 address, or the first 64 bits of an IPv6 address. */
struct source_key {
	__u64 prefix;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct source_key);
	__type(value, struct source);
} sources SEC(".maps");

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

/* Until when any of them is valid (boot clock, ns), to avoid useless lookups. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} paths_end SEC(".maps");

/* Names with large replies (64 bits of a keyed hash of name in lower case, type and class), and
 * until when (boot clock, ns). */
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

/* The total of all buckets. */
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

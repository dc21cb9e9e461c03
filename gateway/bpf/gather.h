/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Fragments of the server's datagrams. A reply above the MTU is fragmented before tc sees it (RFC
 * 791, RFC 8200 section 4.5). The sender's own stack makes the fragments in order, one after the
 * other. So the UDP header of the first one says whose the datagram is and how long, and the last
 * one completes it.
 */
#pragma once

/* A fragmented datagram: addressee, server address, and the IP header's identification. */
struct gather_key {
	__u8 client[16];
	__be32 id;
	__u8 server;
	__u8 zero[3];
};

struct gathering {
	struct flow_key flow;
	__u32 position; /* in the ring; the message follows the two bytes of length */
	__u32 total;	/* bytes of the datagram, with its UDP header */
	__u32 received; /* of them */
	__u32 drop;	/* 1: the remaining fragments are of no use */
};

/* It is full only if that many threads of the server send fragmented datagrams at once. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct gather_key);
	__type(value, struct gathering);
} gathered SEC(".maps");

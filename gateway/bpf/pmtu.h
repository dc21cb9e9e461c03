/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Path MTU discovery (RFC 1191, RFC 8201): ICMP messages about segments of ours that were too long
 * for a link, and what paths were found to carry. PROTOCOL.md, "Too long for the path".
 *
 * A message must quote a sequence number that is in flight, so that nobody can shorten the segments
 * of a connection without seeing it (RFC 5927 section 7).
 */
#pragma once

#include <linux/ip.h>
#include <linux/ipv6.h>

#include "payload.h"

/* RFC 792: the ICMP header, then the IP header of the packet that was too long and 8 bytes of
 * its payload. */
struct too_big4 {
	__u8 type; /* 3, destination unreachable */
	__u8 code; /* 4, fragmentation needed and DF set */
	__be16 checksum;
	__be16 unused;
	__be16 mtu; /* RFC 1191 section 4; older routers send 0 */
	struct iphdr ip;
	__be16 source;
	__be16 destination;
	__be32 seq;
};

/* RFC 4443 section 3.2. */
struct too_big6 {
	__u8 type; /* 2, packet too big */
	__u8 code;
	__be16 checksum;
	__be32 mtu;
	struct ipv6hdr ip;
	__be16 source;
	__be16 destination;
	__be32 seq;
};

/* The smallest path MTU that is believed. IPv4: the minimum that Linux uses for its segments
 * (min_pmtu in its sysctl documentation). IPv6: what every link carries (RFC 8200 section 5). */
#define PATH_MTU_MIN4 552
#define PATH_MTU_MIN6 1280
/* Our headers without TCP options. */
#define HEADERS4 40
#define HEADERS6 60
/* Linux forgets what it learnt after the same time (net.ipv4.route.mtu_expires). */
#define PATH_NS 600000000000ull

/* The largest plateau of RFC 1191 (section 7.1) below the length of the packet that was too
 * long. */
static __always_inline __u32 plateau_below(__u32 length)
{
	return length > 32000 ? 32000 :
	       length > 17914 ? 17914 :
	       length > 8166  ? 8166 :
	       length > 4352  ? 4352 :
	       length > 2002  ? 2002 :
	       length > 1492  ? 1492 :
	       length > 1006  ? 1006 :
				PATH_MTU_MIN4;
}

/* Reads the ICMP message that parse_frame has found. The connection and sequence number of the
 * quoted segment replace those of the message. Returns the path's MTU; 0 if this is another
 * message or cannot be right. */
__noinline int too_big_read(struct xdp_md *ctx)
{
	struct scratch *scratch = scratch_own();
	__u32 mtu, was, length, at;
	struct incoming *in;
	__u64 sum = 0;

	if (!scratch)
		return 0;
	in = &scratch->in;
	length = in->length;
	at = in->transport;
	if (in->ipv6) {
		struct too_big6 icmp;

		if (length < sizeof(icmp) || bpf_xdp_load_bytes(ctx, at, &icmp, sizeof(icmp)) || icmp.type != 2 ||
		    *(__u8 *)&icmp.ip >> 4 != 6 || icmp.ip.nexthdr != IP_TCP)
			return 0;
		mtu = bpf_ntohl(icmp.mtu);
		was = sizeof(icmp.ip) + bpf_ntohs(icmp.ip.payload_len);
		if (mtu < PATH_MTU_MIN6)
			return 0;
		sum = sum_addresses6(in->who.client, in->who.server, IP_ICMP6) + bpf_htons(length);
		for (int i = 0; i < 4; i++)
			if (in->who.server[i] != icmp.ip.saddr.in6_u.u6_addr32[i])
				return 0;
		__builtin_memcpy(in->who.client, &icmp.ip.daddr, sizeof(in->who.client));
		in->who.server_port = icmp.source;
		in->who.client_port = icmp.destination;
		in->seq = bpf_ntohl(icmp.seq);
	} else {
		struct too_big4 icmp;

		/* Our packets have neither options nor fragments. */
		if (length < sizeof(icmp) || bpf_xdp_load_bytes(ctx, at, &icmp, sizeof(icmp)) || icmp.type != 3 ||
		    icmp.code != 4 || *(__u8 *)&icmp.ip != 0x45 || icmp.ip.protocol != IP_TCP ||
		    icmp.ip.frag_off & bpf_htons(0x3fff) || icmp.ip.saddr != in->who.server[3])
			return 0;
		mtu = bpf_ntohs(icmp.mtu);
		was = bpf_ntohs(icmp.ip.tot_len);
		if (!mtu)
			mtu = plateau_below(was);
		if (mtu < PATH_MTU_MIN4)
			mtu = PATH_MTU_MIN4;
		in->who.client[3] = icmp.ip.daddr;
		in->who.server_port = icmp.source;
		in->who.client_port = icmp.destination;
		in->seq = bpf_ntohl(icmp.seq);
	}
	/* RFC 5927 section 7.1: the MTU must be smaller than the packet that did not fit. */
	if (mtu >= was || sum_fold(sum + packet_sum(ctx, at, length)) != 0xffff)
		return 0;
	return mtu;
}

/* Remembers how long the packets to a client may be. */
static __always_inline void path_learn(const __be32 client[4], __u32 mtu, __u64 now)
{
	struct path path = { .until = now + PATH_NS, .mtu = mtu };
	__u32 zero = 0;
	__u64 *end = bpf_map_lookup_elem(&paths_end, &zero);

	if (end)
		*end = path.until;
	bpf_map_update_elem(&paths, client, &path, BPF_ANY);
}

/* The MSS of a new entry: what the client accepts, or less if the path carries less. */
static __always_inline __u16 path_mss(const struct incoming *in, __u16 mss, __u64 now)
{
	__u32 headers = in->ipv6 ? HEADERS6 : HEADERS4, zero = 0;
	__u64 *end = bpf_map_lookup_elem(&paths_end, &zero);
	struct path *path;

	/* On most machines no path has been too narrow. */
	if (!end || *end <= now)
		return mss;
	path = bpf_map_lookup_elem(&paths, in->who.client);
	if (!path || path->until <= now || path->mtu - headers >= mss)
		return mss;
	return path->mtu - headers;
}

/* Makes the segments of an entry shorter; 0 if they are already as short. If a reply now needs
 * several segments, its query counts as not acknowledged from the start; otherwise the client
 * would stop asking. */
static __always_inline int flow_shorten(struct flow *flow, __u16 ours, __u32 mss)
{
	if (mss >= flow->mss || mss >= ours)
		return 0;
	flow->mss = mss;
	if (flow->reply_length > flow_segment_size(flow, ours))
		flow->flags |= flow->flags & FLOW_AT_ONCE ? 0 : FLOW_QUERY_UNACKED;
	return 1;
}

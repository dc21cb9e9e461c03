/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * From a frame to a TCP segment for our port: Ethernet, up to two VLAN tags, IPv4 (RFC 791) or IPv6
 * (RFC 8200) with options and extension headers, TCP (RFC 9293), and the options that we use. A
 * cursor that never passes the end reads the headers. Nothing here knows whether the frame came
 * through XDP or tc.
 */
#pragma once

#include <linux/ip.h>
#include <linux/ipv6.h>

#include "checksum.h"
#include "cookie.h"
#include "flow.h"

#define ETHERNET_HEADER 14
#define VLAN_TAG 4
#define VLAN_TAGS_MAX 2
#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86dd
#define TYPE_VLAN 0x8100
#define TYPE_VLAN_SERVICE 0x88a8
#define IPV6_EXTENSIONS_MAX 6
#define IP_ICMP 1
#define IP_TCP 6
#define IP_UDP 17
#define IP_FRAGMENT 44
#define IP_ICMP6 58

enum tcp_flag_bit { FLAG_FIN = 1, FLAG_SYN = 2, FLAG_RST = 4, FLAG_PSH = 8, FLAG_ACK = 16 };

struct tcp_header {
	__be16 source;
	__be16 destination;
	__be32 seq;
	__be32 ack;
	__u8 offset; /* in words, in the upper half */
	__u8 flags;
	__be16 window;
	__be16 checksum;
	__be16 urgent;
};

/* A client's segment, and where its parts are in the frame. */
struct incoming {
	struct cookie_message who; /* addresses and ports */
	__u32 seq;
	__u32 ack;
	__u32 tsval; /* this and tsecr: if offer.timestamps */
	__u32 tsecr;
	__u32 length;	    /* of the payload */
	__u32 trimmed;	    /* bytes cut off the payload's front: flow_received */
	struct offer offer; /* the options of a SYN; otherwise only timestamps */
	__u16 window;	    /* not scaled */
	__u16 network;	    /* where the IP header begins */
	__u16 transport;    /* where the TCP header begins */
	__be16 checksum;
	__u8 header; /* length of the TCP header */
	__u8 flags;
	__u8 ipv6;
	__u8 unread; /* parse_frame could not read its options at a glance; options_read must */
};

enum parsed {
	PARSED_OTHER,	      /* not a TCP segment for our port */
	PARSED_MALFORMED,     /* a link or IP header that is cut short or invalid */
	PARSED_MALFORMED_TCP, /* an invalid TCP header; who.server says for which server */
	PARSED_SEGMENT,
	PARSED_ICMP,	 /* an ICMP message; only its place and length are read */
	PARSED_FRAGMENT, /* the first of several fragments of a TCP segment */
};

struct cursor {
	void *at;
	void *end;
};

/* Takes the next `bytes` bytes and moves the cursor behind them; 0 if there are fewer. */
static __always_inline void *cursor_take(struct cursor *cursor, __u32 bytes)
{
	void *taken = cursor->at;

	if (taken + bytes > cursor->end)
		return 0;
	cursor->at = taken + bytes;
	return taken;
}

/* Parses IPv4 up to the TCP header; `rest` is the number of bytes that follow in the packet. */
static __always_inline enum parsed parse_ipv4(struct cursor *cursor, __u32 frame, struct incoming *s, __u32 *rest)
{
	struct iphdr *ip = cursor_take(cursor, sizeof(*ip));
	__u32 size, length;
	const __be32 *word;
	__u64 sum;

	if (!ip)
		return PARSED_MALFORMED;
	size = *(__u8 *)ip % 16 * 4;
	length = bpf_ntohs(ip->tot_len);
	if (*(__u8 *)ip >> 4 != 4 || size < sizeof(*ip) || length < size || s->network + length > frame)
		return PARSED_MALFORMED;
	if ((ip->protocol != IP_TCP && ip->protocol != IP_ICMP) || ip->frag_off & bpf_htons(0x1fff))
		return PARSED_OTHER;
	address_map4(s->who.client, ip->saddr);
	address_map4(s->who.server, ip->daddr);
	if (!cursor_take(cursor, size - sizeof(*ip)))
		return PARSED_MALFORMED;
	s->ipv6 = 0;
	s->transport = s->network + size;
	*rest = length - size;
	if (ip->frag_off & bpf_htons(0x2000))
		return ip->protocol == IP_TCP ? PARSED_FRAGMENT : PARSED_OTHER;
	/* The checksum of the header with its options (RFC 791). */
	word = (__be32 *)ip;
	sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];
	word += 5;
	for (int i = 0; i < 10 && sizeof(*ip) + i * 4 < size; i++) {
		if ((void *)(word + i + 1) > cursor->end)
			return PARSED_MALFORMED;
		sum += word[i];
	}
	if (sum_fold(sum) != 0xffff)
		return PARSED_MALFORMED;
	return ip->protocol == IP_TCP ? PARSED_SEGMENT : PARSED_ICMP;
}

static __always_inline enum parsed parse_ipv6(struct cursor *cursor, __u32 frame, struct incoming *s, __u32 *rest)
{
	struct ipv6hdr *ip = cursor_take(cursor, sizeof(*ip));
	__u32 left, at = s->network + sizeof(*ip);
	bool fragment = false;
	__u8 next;

	if (!ip)
		return PARSED_MALFORMED;
	left = bpf_ntohs(ip->payload_len);
	if (*(__u8 *)ip >> 4 != 6 || at + left > frame)
		return PARSED_MALFORMED;
	next = ip->nexthdr;
	for (int i = 0; i <= IPV6_EXTENSIONS_MAX && next != IP_TCP && next != IP_ICMP6; i++) {
		__u8 *extension;
		__u32 size;

		/* Hop-by-hop options, routing, fragment, destination options (RFC 8200 section 4). */
		if (next != 0 && next != 43 && next != IP_FRAGMENT && next != 60)
			return PARSED_OTHER;
		if (i == IPV6_EXTENSIONS_MAX && left >= 2)
			return PARSED_OTHER;
		extension = cursor_take(cursor, 8);
		if (left < 8 || !extension)
			return PARSED_MALFORMED;
		size = (extension[1] + 1) * 8;
		if (next == IP_FRAGMENT) {
			if (extension[2] || extension[3] & 0xf8)
				return PARSED_OTHER;
			/* One with the whole packet is no fragment (RFC 6946 section 4). */
			fragment = extension[3] & 1;
			size = 8;
		}
		next = extension[0];
		if (size > left || !cursor_take(cursor, size - 8))
			return PARSED_MALFORMED;
		at += size;
		left -= size;
		if (fragment)
			break;
	}
	__builtin_memcpy(s->who.client, &ip->saddr, sizeof(s->who.client));
	__builtin_memcpy(s->who.server, &ip->daddr, sizeof(s->who.server));
	s->ipv6 = 1;
	s->transport = at;
	*rest = left;
	if (fragment)
		return next == IP_TCP ? PARSED_FRAGMENT : PARSED_OTHER;
	return next == IP_TCP ? PARSED_SEGMENT : PARSED_ICMP;
}

/* Reads options in the usual layouts: NOP NOP TS (RFC 7323 appendix A), and that of Linux's
 * SYNs: MSS, SACK-permitted, TS, NOP, WS. */
static __always_inline void options_glance(const void *options, const void *end, struct incoming *s)
{
	const __be32 *word = options;

	/* The defaults for missing options. For the MSS see RFC 9293 section 3.7.1. */
	s->offer = (struct offer){ .mss = s->ipv6 ? 1220 : 536, .wscale = WSCALE_NONE };
	s->tsval = 0;
	s->tsecr = 0;
	s->unread = s->header != sizeof(struct tcp_header);
	if (s->header == 32 && options + 12 <= end && word[0] == bpf_htonl(0x0101080a)) {
		s->tsval = bpf_ntohl(word[1]);
		s->tsecr = bpf_ntohl(word[2]);
	} else if (s->header == 40 && options + 20 <= end && bpf_ntohl(word[0]) >> 16 == 0x0204 &&
		   word[1] == bpf_htonl(0x0402080a) && bpf_ntohl(word[4]) >> 8 == 0x010303) {
		s->offer.mss = bpf_ntohl(word[0]);
		s->offer.sack = 1;
		s->offer.wscale = bpf_ntohl(word[4]);
		if (s->offer.wscale > WSCALE_MAX)
			s->offer.wscale = WSCALE_MAX;
		s->tsval = bpf_ntohl(word[2]);
		s->tsecr = bpf_ntohl(word[3]);
	} else {
		return;
	}
	s->offer.timestamps = 1;
	s->unread = 0;
}

/* Parses a frame of `frame` bytes. At least its headers lie between `data` and `end`. */
static __always_inline enum parsed parse_frame(void *data, void *end, __u32 frame, __u16 port, struct incoming *s)
{
	struct cursor cursor = { data, end };
	enum parsed parsed;
	struct tcp_header *tcp;
	__be16 *type;
	__u32 rest;

	if (!cursor_take(&cursor, ETHERNET_HEADER - 2))
		return PARSED_MALFORMED;
	type = cursor_take(&cursor, 2);
	if (!type)
		return PARSED_MALFORMED;
	s->network = ETHERNET_HEADER;
	for (int i = 0; i < VLAN_TAGS_MAX; i++) {
		if (*type != bpf_htons(TYPE_VLAN) && *type != bpf_htons(TYPE_VLAN_SERVICE))
			break;
		type = cursor_take(&cursor, VLAN_TAG);
		if (!type)
			return PARSED_MALFORMED;
		type++; /* past the tag's own two bytes */
		s->network += VLAN_TAG;
	}
	/* A frame to a group address belongs to no connection (RFC 1122 section 4.2.3.10). */
	if (*(__u8 *)data & 1)
		return PARSED_OTHER;
	if (*type == bpf_htons(TYPE_IPV4))
		parsed = parse_ipv4(&cursor, frame, s, &rest);
	else if (*type == bpf_htons(TYPE_IPV6))
		parsed = parse_ipv6(&cursor, frame, s, &rest);
	else
		return PARSED_OTHER;
	if (parsed == PARSED_ICMP)
		s->length = rest;
	if (parsed != PARSED_SEGMENT)
		return parsed;

	tcp = cursor_take(&cursor, sizeof(*tcp));
	if (!tcp || rest < sizeof(*tcp))
		return PARSED_MALFORMED_TCP;
	if (tcp->destination != bpf_htons(port))
		return PARSED_OTHER;
	s->header = tcp->offset >> 4 << 2;
	if (s->header < sizeof(*tcp) || s->header > rest || !cursor_take(&cursor, s->header - sizeof(*tcp)))
		return PARSED_MALFORMED_TCP;
	s->length = rest - s->header;
	s->trimmed = 0;
	s->who.client_port = tcp->source;
	s->who.server_port = tcp->destination;
	s->seq = bpf_ntohl(tcp->seq);
	s->ack = bpf_ntohl(tcp->ack);
	s->flags = tcp->flags;
	s->window = bpf_ntohs(tcp->window);
	s->checksum = tcp->checksum;
	options_glance(tcp + 1, end, s);
	return PARSED_SEGMENT;
}

#define OPTIONS_MAX 40

/* The options of a TCP header, followed by the room that reading the last one may touch. */
struct option_bytes {
	__u8 at[OPTIONS_MAX + 16];
};

struct options {
	struct offer offer; /* the caller sets the defaults for missing options before reading */
	__u32 tsval;
	__u32 tsecr;
};

static __always_inline __u32 read32(const __u8 *bytes)
{
	return (__u32)bytes[0] << 24 | (__u32)bytes[1] << 16 | (__u32)bytes[2] << 8 | bytes[3];
}

/* Reads `length` bytes of options (RFC 9293 section 3.1, RFC 7323, RFC 2018). As in Linux
 * (tcp_parse_options, 6.18), an option that does not fit ends the reading, and one of a wrong
 * length is skipped. A separate function, so that the verifier checks its loop once. */
__noinline int options_read(const struct option_bytes *bytes, __u32 length, struct options *options)
{
	__u32 at = 0;

	if (!bytes || !options)
		return 0;
	for (int i = 0; i < OPTIONS_MAX; i++) {
		__u32 kind, size, next;
		const __u8 *value;

		if (at >= length || at >= OPTIONS_MAX)
			break;
		kind = bytes->at[at];
		if (kind == 0)
			break;
		size = kind == 1 ? 1 : bytes->at[at + 1];
		next = at + size;
		/* The mask changes nothing, but it gives the verifier one range for all paths to
		 * this point. */
		if (next > length || next > OPTIONS_MAX || size < (kind == 1 ? 1 : 2))
			break;
		asm volatile("%0 &= 63" : "+r"(next));
		value = &bytes->at[at + 2];
		at = next;
		if (kind == 2 && size == 4) {
			options->offer.mss = value[0] << 8 | value[1];
		} else if (kind == 3 && size == 3) {
			options->offer.wscale = value[0] > WSCALE_MAX ? WSCALE_MAX : value[0];
		} else if (kind == 4 && size == 2) {
			options->offer.sack = 1;
		} else if (kind == 8 && size == 10) {
			options->offer.timestamps = 1;
			options->tsval = read32(value);
			options->tsecr = read32(value + 4);
		}
	}
	return 0;
}

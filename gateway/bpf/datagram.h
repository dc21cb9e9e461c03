/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc egress: reads a datagram of the server, or a fragment of one, on its way out.
 */
#pragma once

#include "packet.h"
#include "gather.h"

#define DNS_HEADER 12
#define DNS_QR 0x8000
#define DNS_TC 0x0200
#define DNS_RCODE 0x000f
/* The lower four bits of BADCOOKIE (RFC 7873 section 8). Alone they mean YXRRSET, which answers
 * only updates. */
#define DNS_BADCOOKIE 7

/* A UDP datagram, or a fragment of one, on its way out. */
struct datagram {
	struct gather_key gather; /* the client, the server address, and the identification of fragments */
	struct server_key from;
	__u32 l4;	/* offset of the UDP header, or of a later fragment's data */
	__u32 bytes;	/* from there on */
	__u32 fragment; /* where a later fragment's data belongs; 0: whole, or the first */
	__u32 length;	/* of the whole datagram, with its UDP header */
	__be16 port;	/* to which port */
	__be16 dns_id;
	__be16 dns_flags;
	__be16 questions;
	__u32 hash[2]; /* of a readable question, by both keys: the key may have changed since the query */
	bool records;  /* it has an answer or an authority record */
	bool v6;
	bool more; /* fragments follow */
	bool readable; /* its question is readable */
};

/* Frees the packet and tells the sender that it was sent. TCX_DROP would be an error to the
 * sender, and the stack would not send the rest of a fragmented datagram. A redirect to no
 * interface avoids both (kernel 6.18, net/core/dev.c sch_handle_egress, net/core/filter.c
 * skb_do_redirect). */
static __always_inline int swallow(void)
{
	return bpf_redirect(0, 0);
}

/* Whether this is a datagram from the DNS port, or a fragment without ports. */
static __always_inline bool datagram_read(struct __sk_buff *ctx, const struct settings *s, struct datagram *d)
{
	void *data = packet_start(ctx), *end = packet_end(ctx);
	const __be16 *udp;

	if (data + ETHERNET_HEADER + 20 > end)
		return false;
	if (*(__be16 *)(data + 12) == bpf_htons(0x0800)) {
		const struct iphdr *ip = data + ETHERNET_HEADER;
		__u16 offset = bpf_ntohs(ip->frag_off);

		if (ip->protocol != IPPROTO_UDP || *(__u8 *)ip != 0x45)
			return false;
		((__be32 *)d->gather.client)[2] = ((__be32 *)d->from.address)[2] = bpf_htonl(0xffff);
		((__be32 *)d->gather.client)[3] = ip->daddr;
		((__be32 *)d->from.address)[3] = ip->saddr;
		d->gather.id = ip->id;
		d->fragment = (offset & 0x1fff) * 8;
		d->more = offset & 0x2000;
		d->l4 = ETHERNET_HEADER + 20;
		d->bytes = bpf_ntohs(ip->tot_len) - 20;
	} else if (*(__be16 *)(data + 12) == bpf_htons(0x86dd)) {
		const struct ipv6hdr *ip = data + ETHERNET_HEADER;

		if ((void *)(ip + 1) > end)
			return false;
		d->v6 = true;
		__builtin_memcpy(d->gather.client, &ip->daddr, 16);
		__builtin_memcpy(d->from.address, &ip->saddr, 16);
		d->l4 = ETHERNET_HEADER + 40;
		d->bytes = bpf_ntohs(ip->payload_len);
		if (ip->nexthdr == IPPROTO_FRAGMENT) {
			const __u8 *header = (void *)(ip + 1);
			__u16 offset;

			if ((void *)header + 8 > end || header[0] != IPPROTO_UDP || d->bytes < 8)
				return false;
			offset = header[2] << 8 | header[3];
			d->gather.id = *(__be32 *)(header + 4);
			d->fragment = offset & 0xfff8;
			d->more = offset & 1;
			d->l4 += 8;
			d->bytes -= 8;
		} else if (ip->nexthdr != IPPROTO_UDP) {
			return false;
		}
	} else {
		return false;
	}
	if (d->bytes > 65535 || d->l4 + d->bytes > ctx->len)
		return false;
	if (d->fragment)
		return true;
	udp = data + d->l4;
	if ((void *)udp + UDP_HEADER + DNS_HEADER > end || udp[0] != bpf_htons(s->port))
		return false;
	d->port = udp[1];
	d->length = bpf_ntohs(udp[2]);
	d->dns_id = udp[4];
	d->dns_flags = udp[5];
	d->questions = udp[6];
	d->records = udp[7] | udp[8];
	return d->length >= UDP_HEADER + DNS_HEADER && (d->more ? d->bytes < d->length : d->bytes >= d->length);
}

/* The key of the connection that it may belong to. */
static __always_inline void datagram_key(const struct datagram *d, struct flow_key *key)
{
	__builtin_memcpy(key->client, d->gather.client, 16);
	key->port = d->port;
	key->server = d->gather.server;
}

/* Fragments that follow this one are swallowed. */
static __always_inline void gather_drop(const struct datagram *d)
{
	struct gathering g = {.drop = 1};

	if (d->more)
		bpf_map_update_elem(&gathered, &d->gather, &g, BPF_ANY);
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc egress: the server's datagrams become segments. This runs in the server's own send call, after
 * routing, the packet filter and fragmentation. What it sends passes no further rule.
 *
 * Before working on this file read segment.h, and PROTOCOL.md, "The reply".
 */
#pragma once

#include "dns.h"
#include "packet.h"
#include "segment.h"
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

#include "truncate.h"

/* We cannot send the whole reply, so the kernel's TCP has to answer the query. It gets the query
 * from the ring, in the packet that held the reply, as the client's segment on its way in. */
static __always_inline int to_kernel(struct __sk_buff *ctx, const struct settings *s, const struct datagram *d,
				     struct flow *flow, bool refused)
{
	struct sending o = {};
	struct ring_head *head = ring_top();
	__u8 *ring = ring_bytes();
	__u32 position = flow->stored, length = flow->query_length;
	__u8 mac[12];
	bool scaled = flow->client_wscale < WSCALE_NONE;

	if (!flow_leave_query(flow, FLOW_SLOW, FLOW_SLOW, 0)) {
		count(COUNT_REPLY_REPEATED);
		return swallow();
	}
	count(refused ? COUNT_TO_KERNEL_REFUSED : COUNT_TO_KERNEL_REPLY);
	if (!head || !ring || !ring_holds(head, position) || !WITHIN(length, 1, QUERY_MAX))
		return swallow(); /* the client sends it again */
	/* A rate limit or a missing cookie says nothing about the name. */
	if (!refused)
		large_name_add(s, ring + ring_offset(position), length, bpf_ktime_get_boot_ns());

	segment_addresses(&o, d->v6, (const __be32 *)d->gather.client, (const __be32 *)d->from.address);
	segment_ports(&o, d->port, bpf_htons(s->port), flow->flags & FLOW_TIMESTAMPS, flow->client_tsval, flow->tsval);
	o.h.tcp.seq = bpf_htonl(flow->query_seq);
	o.h.tcp.ack = bpf_htonl(flow->server_seq);
	o.h.tcp.flags = FLAG_ACK | FLAG_PSH | (flow->flags & FLOW_CLIENT_FIN ? FLAG_FIN : 0);
	o.h.tcp.window = bpf_htons(scaled ? flow->window >> flow->client_wscale : flow->window);
	/* A complete checksum, even where the packet says that it will be finished later:
	 * generic XDP checks it again. */
	if (bpf_skb_load_bytes(ctx, 0, mac, 12) || segment_room(ctx, &o, length) ||
	    segment_write(ctx, &o, ring, ring_offset(position), length) || !ring_holds(head, position) ||
	    bpf_skb_store_bytes(ctx, 0, mac + 6, 6, 0) || bpf_skb_store_bytes(ctx, 6, mac, 6, 0)) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	return bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
}

/* Several segments: all but the last are sent as clones, and the packet itself becomes the last
 * one. */
struct several {
	struct sending o;
	struct __sk_buff *ctx;
	__u32 position; /* of the reply in the ring */
	__u32 seq;
	__u32 mss;
	__u32 sent; /* bytes of the reply */
	bool failed;
};

static long several_send(__u32 index, struct several *l)
{
	struct ring_head *head = ring_top();
	__u8 *ring = ring_bytes();
	__u32 at = l->sent, mss = l->mss;

	if (!ring || !head || !WITHIN(at, 0, 65535) || !WITHIN(mss, 1, SUM_MAX))
		return 1;
	l->o.h.tcp.seq = bpf_htonl(l->seq + at);
	/* What was copied may have been another's by then. */
	if (segment_write(l->ctx, &l->o, ring, ring_offset(l->position) + at, mss) || !ring_holds(head, l->position)) {
		l->failed = true;
		return 1;
	}
	/* The clone passes through this program again, which lets it go because it is no datagram. A
	 * clone that does not get through is a lost segment, as on any link: the client asks for it
	 * again. */
	if (bpf_clone_redirect(l->ctx, l->ctx->ifindex, 0))
		count(COUNT_REPLY_FAILED);
	l->sent = at + mss;
	return 0;
}

/* Whether a reply says only that the server will not answer over UDP: it is cut off and has no
 * record, as rate limits send it, or its code is BADCOOKIE. A reply without a question counts too.
 */
static __always_inline bool refused(const struct datagram *d)
{
	return !d->questions || (d->dns_flags & bpf_htons(DNS_TC) && !d->records) ||
	       (d->dns_flags & bpf_htons(DNS_RCODE)) == bpf_htons(DNS_BADCOOKIE);
}

/* Where a reply's question is read. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct query_room);
} question_room SEC(".maps");

/* Reads the question of a datagram that may be a reply of ours. */
static __always_inline void question_read(struct __sk_buff *ctx, const struct settings *s, struct datagram *d)
{
	__u32 zero = 0, bytes, question;
	struct query_room *room = bpf_map_lookup_elem(&question_room, &zero);

	if (!room || d->questions != bpf_htons(1))
		return;
	bytes = d->bytes - UDP_HEADER;
	if (bytes > d->length - UDP_HEADER)
		bytes = d->length - UDP_HEADER;
	if (bytes > DNS_HEADER + DNS_NAME_MAX + 4)
		bytes = DNS_HEADER + DNS_NAME_MAX + 4;
	if (!WITHIN(bytes, DNS_HEADER, DNS_HEADER + DNS_NAME_MAX + 4) ||
	    bpf_skb_load_bytes(ctx, d->l4 + UDP_HEADER, room->bytes + DNS_PREFIX, bytes))
		return;
	question = question_length(room, DNS_PREFIX + bytes);
	if (!question)
		return;
	d->hash[0] = question_hash(&s->keys[0], room, question);
	d->hash[1] = question_hash(&s->keys[1], room, question);
	d->readable = true;
}

/* What a datagram may be a reply to. */
enum reply_of { REPLY_ONE, REPLY_OPEN };

/* Which of these it is; if it may be a reply, its question is read. A separate function, so that
 * the verifier checks it once. */
__noinline int reply_of(struct __sk_buff *ctx, struct datagram *d)
{
	struct settings *s = settings_now();
	struct flow_key key = {};
	struct flow *flow;
	bool open;

	if (!d || !s || d->fragment)
		return REPLY_ONE;
	datagram_key(d, &key);
	flow = flow_find(&key);
	open = flow && (flow->state == FLOW_OPEN || flow->state == FLOW_KERNEL);
	if (open || (flow && flow->dns_id == d->dns_id))
		question_read(ctx, s, d);
	return open ? REPLY_OPEN : REPLY_ONE;
}

/* Whether a datagram answers the question of an entry. The alternative is the answer to a UDP
 * query with the same ports and ID, which anybody can send in the client's name. A datagram
 * without a question may answer it. */
static __always_inline bool question_is(const struct datagram *d, __u32 question)
{
	return !d->questions || (d->readable && (d->hash[0] == question || d->hash[1] == question));
}

/* What one segment to this client may carry. */
static __always_inline __u32 segment_limit(const struct settings *s, const struct flow *flow, bool v6)
{
	__u32 mss = flow_segment_size(flow, v6 ? s->mss6 : s->mss4);

	return mss > SUM_MAX ? SUM_MAX : mss;
}

/* Whether the kernel has to send a reply with a message of `length` bytes. */
static __always_inline bool too_large(const struct settings *s, const struct flow *flow, bool v6, __u32 length, bool added)
{
	if (added)
		length -= DNS_OPT;
	return length > 65533 || length + 2 > flow->window ||
	       length + 2 > segment_limit(s, flow, v6) * s->max_segments;
}

/* Sends the reply of `length` bytes at `position` in the ring from byte `begin` (< `length`) on. */
static __always_inline int reply_send(struct __sk_buff *ctx, const struct settings *s, const struct datagram *d,
				      const struct flow *flow, __u8 *ring, __u32 position, __u32 length, __u32 begin,
				      bool partial, bool twice)
{
	struct ring_head *head = ring_top();
	bool unacked = flow->flags & FLOW_QUERY_UNACKED;
	__u32 ack = unacked ? flow->query_seq : flow->client_next;
	__u32 mss = segment_limit(s, flow, d->v6), last = length - begin, sent;
	struct several l = {};

	segment_addresses(&l.o, d->v6, (const __be32 *)d->from.address, (const __be32 *)d->gather.client);
	segment_ports(&l.o, bpf_htons(s->port), d->port, flow->flags & FLOW_TIMESTAMPS, flow->tsval, flow->client_tsval);
	l.o.h.tcp.window = bpf_htons(flow_our_window(flow));
	l.o.h.tcp.flags = FLAG_ACK;
	/* The client's FIN is only acknowledged together with ours. */
	l.o.h.tcp.ack = bpf_htonl(ack - (!unacked && flow->flags & FLOW_CLIENT_FIN));
	l.o.partial = partial;
	if (last > mss) {
		l.ctx = ctx;
		l.position = position;
		l.seq = flow->server_seq;
		l.mss = mss;
		l.sent = begin;
		if (!WITHIN(mss, 1, SUM_MAX) || segment_room(ctx, &l.o, mss))
			goto failed;
		bpf_loop((last - 1) / mss, several_send, &l, 0);
		sent = *(volatile __u32 *)&l.sent;
		if (l.failed || sent > 65535 || sent >= length)
			goto failed;
		last = length - sent;
		if (bpf_skb_change_tail(ctx, ETHERNET_HEADER + ip_length(&l.o) + tcp_length(&l.o) + last, 0))
			goto failed;
	} else if (segment_room(ctx, &l.o, last)) {
		goto failed;
	}
	sent = length - last;
	if (!WITHIN(last, 1, SUM_MAX) || !WITHIN(sent, 0, 65535))
		goto failed;
	l.o.h.tcp.flags = FLAG_ACK | FLAG_PSH | (flow->state == FLOW_CLOSING ? FLAG_FIN : 0);
	l.o.h.tcp.seq = bpf_htonl(flow->server_seq + sent);
	l.o.h.tcp.ack = bpf_htonl(ack);
	if (segment_write(ctx, &l.o, ring, ring_offset(position) + sent, last) || !head || !ring_holds(head, position))
		goto failed;
	if (twice && bpf_clone_redirect(ctx, ctx->ifindex, 0))
		count(COUNT_REPLY_FAILED);
	return TC_ACT_UNSPEC;
failed:
	count(COUNT_REPLY_FAILED); /* the client asks again, and the ring has it */
	return swallow();
}

/* Counts how many microseconds the server took. */
static __always_inline void latency_note(__u32 us)
{
	__u32 octave, sum = LATENCY_SUM, bucket = us;
	__u64 *value;

	if (us >= 4) {
		/* The highest bit, by halves. */
		octave = (us > 0xffff) << 4;
		octave |= (us >> octave > 0xff) << 3;
		octave |= (us >> octave > 0xf) << 2;
		octave |= (us >> octave > 3) << 1;
		octave |= us >> octave > 1;
		bucket = (octave - 1) * 4 + (us >> (octave - 2) & 3);
		if (bucket >= LATENCIES)
			bucket = LATENCIES - 1;
	}
	value = bpf_map_lookup_elem(&latencies, &bucket);
	if (value)
		*value += 1;
	value = bpf_map_lookup_elem(&latencies, &sum);
	if (value)
		*value += us;
}

/* Turns a message in the ring into one for TCP: `length` bytes (at least a DNS header) behind
 * room for the length. If an OPT record was added to the query, it must be the last record, and
 * is removed. Returns the length including those two bytes; 0 if the last record is another one. */
static __always_inline __u32 message_end(__u8 *ring, __u32 offset, __u32 length, bool added)
{
	if (added) {
		__u8 *opt = ring + offset + DNS_PREFIX + length - DNS_OPT, *additional = ring + offset + DNS_PREFIX + 10;
		__u16 records = additional[0] << 8 | additional[1];

		if (length < DNS_HEADER + DNS_OPT || !records || opt[0] || opt[1] || opt[2] != 41 || opt[9] || opt[10])
			return 0;
		records--;
		additional[0] = records >> 8;
		additional[1] = records;
		length -= DNS_OPT;
	}
	ring[offset] = length >> 8;
	ring[offset + 1] = length;
	return length + DNS_PREFIX;
}

/* Sends the reply whose message of `length` bytes (at least a DNS header) is in the ring, behind
 * room for its length. */
static __always_inline int reply(struct __sk_buff *ctx, const struct settings *s, const struct datagram *d, struct flow *flow,
				 __u8 *ring, __u32 position, __u32 length, bool partial)
{
	__u32 offset = ring_offset(position), mss = segment_limit(s, flow, d->v6);
	int verdict;
	__u64 now;
	bool one;

	if (!WITHIN(length, DNS_HEADER, 65535))
		return swallow();
	length = message_end(ring, offset, length, flow->flags & FLOW_EDNS_ADDED);
	if (!length)
		return to_kernel(ctx, s, d, flow, false);
	one = length <= mss;

	if (!flow_leave_query(flow, s->close_fin ? FLOW_CLOSING : FLOW_REPLIED, FLOW_CLOSING,
			      one || flow->flags & FLOW_AT_ONCE ? 0 : FLOW_QUERY_UNACKED)) {
		count(COUNT_REPLY_REPEATED);
		return swallow();
	}
	/* The order matters: once there is a reply_length, the ring must hold the reply at
	 * `stored`. */
	flow->stored = position;
	flow->acked = flow->server_seq;
	now = bpf_ktime_get_boot_ns();
	flow->seen_ms = now / 1000000;
	*(volatile __u16 *)&flow->reply_length = length;
	verdict = reply_send(ctx, s, d, flow, ring, position, length, 0, partial, false);
	if (verdict == TC_ACT_UNSPEC) {
		count(one ? COUNT_REPLY : COUNT_REPLY_SEGMENTED);
		count_more(COUNT_REPLY_SEGMENTS, one ? 0 : (length - 1) / mss + 1);
		latency_note((__u32)(now / 1000) - flow->asked_us);
	}
	return verdict;
}

/* The server was asked again because the client misses part of a reply that the ring has.
 * Whatever this packet says, it now carries that part. A single segment is sent twice, because
 * the client's next time-out would take twice as long. */
static __always_inline int reply_again(struct __sk_buff *ctx, const struct settings *s, const struct datagram *d,
				       struct flow *flow)
{
	__u32 length = flow->reply_length, begin = flow->acked - flow->server_seq, mss = segment_limit(s, flow, d->v6);
	enum summing sum = d->more ? SUM_DONE : summing(ctx, d->l4);
	struct ring_head *head = ring_top();
	__u8 *ring = ring_bytes();
	int verdict;

	/* The whole word is changed atomically, because flow_answered changes it too. */
	__sync_fetch_and_and((__u32 *)&flow->state, ~((__u32)FLOW_AGAIN << 8));
	if (!head || !ring || sum == SUM_ODD || !ring_holds(head, flow->stored) ||
	    !WITHIN(length, 1, 65535) || begin >= length || !WITHIN(begin, 0, 65535)) {
		count(COUNT_REPLY_REPEATED);
		return swallow();
	}
	flow->seen_ms = bpf_ktime_get_boot_ns() / 1000000;
	verdict = reply_send(ctx, s, d, flow, ring, flow->stored, length, begin, sum == SUM_PARTIAL,
			     length - begin <= mss);
	if (verdict == TC_ACT_UNSPEC)
		count_more(COUNT_RESENT, length - begin <= mss ? 2 : (length - begin - 1) / mss + 1);
	return verdict;
}

/* Handles the first or a later fragment of a reply. */
static __always_inline int gather_first(struct __sk_buff *ctx, const struct datagram *d, const struct flow_key *key, __u8 *ring,
					struct ring_head *head)
{
	struct gathering g = {.flow = *key, .total = d->length, .received = d->bytes};
	__u32 bytes = d->bytes - UDP_HEADER;

	g.position = ring_take(head, 2 + d->length);
	if (!WITHIN(bytes, 1, 65535) ||
	    bpf_skb_load_bytes(ctx, d->l4 + UDP_HEADER, ring + ring_offset(g.position) + 2, bytes) ||
	    bpf_map_update_elem(&gathered, &d->gather, &g, BPF_ANY))
		count(COUNT_REPLY_FAILED);
	return swallow();
}

static __always_inline int gather_next(struct __sk_buff *ctx, const struct settings *s, struct datagram *d)
{
	struct gathering *g = bpf_map_lookup_elem(&gathered, &d->gather);
	__u32 at = d->fragment - UDP_HEADER, bytes = d->bytes;
	struct ring_head *head;
	struct flow *flow;
	__u8 *ring;
	int verdict;

	if (!g)
		return TC_ACT_UNSPEC; /* a fragment of a reply to some UDP client */
	if (g->drop) {
		if (!d->more)
			bpf_map_delete_elem(&gathered, &d->gather);
		return swallow();
	}
	ring = ring_bytes();
	if (!ring || !WITHIN(at, 0, 65535) || !WITHIN(bytes, 1, 65535) || at + UDP_HEADER + bytes > g->total ||
	    bpf_skb_load_bytes(ctx, d->l4, ring + ring_offset(g->position) + 2 + at, bytes)) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	g->received += bytes;
	if (g->received < g->total)
		return swallow();
	d->port = g->flow.port;
	flow = bpf_map_lookup_elem(&flows, &g->flow);
	head = ring_top();
	if (!flow || !head) {
		verdict = swallow();
	} else if (!ring_holds(head, g->position)) {
		/* The first fragments are gone, and the entry still waits. The client asks
		 * again. */
		count(COUNT_REPLY_FAILED);
		verdict = swallow();
	} else {
		verdict = reply(ctx, s, d, flow, ring, g->position, g->total - UDP_HEADER, false);
	}
	bpf_map_delete_elem(&gathered, &d->gather);
	return verdict;
}

#include "open_reply.h"

/* Handles a datagram of the server from the DNS port, or a fragment. A separate function, as
 * open_reply is: the stack has room for only one of them. */
__noinline int egress_one(struct __sk_buff *ctx, struct datagram *d)
{
	struct settings *s = settings_now();
	struct flow_key key = {};
	struct ring_head *head;
	struct flow *flow;
	__u32 position, length;
	enum summing sum;
	__u8 *ring;

	if (!d || !s)
		return TC_ACT_UNSPEC;
	if (d->fragment)
		return gather_next(ctx, s, d);
	datagram_key(d, &key);
	flow = flow_find(&key);
	if (!flow || flow->state <= FLOW_SYN || flow->state == FLOW_OPEN || flow->dns_id != d->dns_id ||
	    !(d->dns_flags & bpf_htons(DNS_QR)) || !question_is(d, flow->question))
		return other_client(ctx, s, d);
	if (flow->state != FLOW_QUERY) {
		gather_drop(d);
		if (flow->flags & FLOW_AGAIN && (flow->state == FLOW_REPLIED || flow->state == FLOW_CLOSING))
			return reply_again(ctx, s, d, flow);
		/* The server also answered a repeated query. */
		count(COUNT_REPLY_REPEATED);
		return swallow();
	}

	length = d->length - UDP_HEADER;
	if (refused(d) || d->dns_flags & bpf_htons(DNS_TC) || too_large(s, flow, d->v6, length, flow->flags & FLOW_EDNS_ADDED)) {
		gather_drop(d);
		return to_kernel(ctx, s, d, flow, refused(d));
	}
	head = ring_top();
	ring = ring_bytes();
	sum = summing(ctx, d->l4);
	if (!head || !ring || sum == SUM_ODD || !WITHIN(length, DNS_HEADER, 65535)) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	if (d->more)
		return gather_first(ctx, d, &key, ring, head);
	position = ring_take(head, 2 + length);
	if (bpf_skb_load_bytes(ctx, d->l4 + UDP_HEADER, ring + ring_offset(position) + 2, length)) {
		count(COUNT_REPLY_FAILED);
		return swallow();
	}
	return reply(ctx, s, d, flow, ring, position, length, sum == SUM_PARTIAL);
}

SEC("tcx/egress")
int gateway_egress(struct __sk_buff *ctx)
{
	struct settings *s = settings_now();
	struct datagram d = {};
	__u8 *server;
	int verdict;

	if (!s || !s->active || ctx->gso_size || !datagram_read(ctx, s, &d))
		return TC_ACT_UNSPEC;
	server = bpf_map_lookup_elem(&servers, &d.from);
	if (!server)
		return TC_ACT_UNSPEC;
	d.gather.server = *server;
	if (reply_of(ctx, &d) == REPLY_OPEN) {
		verdict = open_reply(ctx, &d);
		if (verdict != OPEN_OTHER)
			return verdict;
	}
	return egress_one(ctx, &d);
}

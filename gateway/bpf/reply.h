/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc egress: a reply in the ring becomes segments, or its query goes to the kernel's TCP.
 *
 * Before working on this file read segment.h, and PROTOCOL.md, "The reply".
 */
#pragma once

#include "dns.h"
#include "segment.h"
#include "datagram.h"
#include "question.h"

/* What a reply tells the gateway about its question. */
enum telling {
	TELLS_ANSWER,
	TELLS_LARGE,   /* the answer, which is too large to be sent here to anybody */
	TELLS_NOTHING, /* the server does not answer over UDP */
};

/* A rate limit or a missing cookie says nothing about the question, and neither do a client's
 * window, MSS and path. */
static __always_inline enum telling reply_tells(const struct settings *s, const struct datagram *d, __u32 length, bool added)
{
	__u32 size = d->v6 ? s->mss6 : s->mss4;

	if (refused(d))
		return TELLS_NOTHING;
	if (added)
		length -= DNS_OPT;
	if (size > SUM_MAX)
		size = SUM_MAX;
	return d->dns_flags & bpf_htons(DNS_TC) || length > 65533 || length + 2 > size * s->max_segments ? TELLS_LARGE :
													   TELLS_ANSWER;
}

/* We cannot send the whole reply, so the kernel's TCP has to answer the query. It gets the query
 * from the ring, in the packet that held the reply, as the client's segment on its way in. */
static __always_inline int to_kernel(struct __sk_buff *ctx, const struct settings *s, const struct datagram *d,
				     struct flow *flow, enum telling tells)
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
	count(tells == TELLS_NOTHING ? COUNT_TO_KERNEL_REFUSED : COUNT_TO_KERNEL_REPLY);
	if (!head || !ring || !ring_holds(head, position) || !WITHIN(length, 1, QUERY_MAX))
		return swallow(); /* the client sends it again */
	if (tells == TELLS_LARGE)
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
	/* Another connection's data may have replaced the reply before it was copied. */
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
		/* Finds the highest bit by halving the number of bits. */
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
		return to_kernel(ctx, s, d, flow, TELLS_ANSWER);
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
 * the client's next timeout would take twice as long. */
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

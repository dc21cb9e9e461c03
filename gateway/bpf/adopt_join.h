/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc ingress: puts what the kernel's TCP must have first in front of a segment.
 */
#pragma once

#include "open.h"
#include "packet.h"

/* How many bytes go in front of a segment of an OPEN entry; 0 if it cannot be adopted now. */
__noinline int adopt_open_ready(const struct flow_key *key, __u32 ack)
{
	struct flow *flow = key ? flow_find(key) : 0;
	struct opens *o = key ? opens_find(key) : 0;
	int bytes = 0;

	if (!flow || !o)
		return 0;
	bpf_spin_lock(&o->lock);
	if (opens_are(o, key) && o->state == OPENS_LEAVING && o->given == ack && flow->acked == ack)
		bytes = o->bytes + flow->ahead_length;
	bpf_spin_unlock(&o->lock);
	return bytes;
}

/* Collects the queries of an OPEN entry in the ring. */
struct gathering_open {
	struct opens *o;
	__u32 at; /* in the ring's bytes */
	__u32 done;
	bool failed;
};

static long adopt_open_one(__u32 index, struct gathering_open *g)
{
	struct ring_head *head = ring_top();
	__u8 *ring = ring_bytes();
	struct open_query *q;
	__u32 at = g->at, done = g->done, length, stored;

	if (index >= g->o->count)
		return 1;
	q = opens_at(g->o, index);
	length = q->length;
	stored = q->stored;
	if (q->reply_length)
		return 0;
	if (!head || !ring || !WITHIN(length, 1, QUERY_MAX) || !WITHIN(done, 0, OPEN_BYTES) || !WITHIN(at, 0, RING_SIZE) ||
	    bpf_probe_read_kernel(ring + at + done, length, ring + ring_offset(stored) + (q->offset & (QUERY_MAX - 1))) ||
	    !ring_holds(head, stored)) {
		g->failed = true;
		return 1;
	}
	g->done = done + length;
	return 0;
}

/* Prepares to give the connection to the kernel's TCP. Puts everything that must precede the
 * segment into the ring, in one piece of `bytes` bytes at `position`. Returns 0 if that is not
 * possible. */
#define ADOPT_GATHER_LATE (-1)
__noinline int adopt_open_gather(const struct flow_key *key, __u32 ack, __u32 bytes, __u32 *position)
{
	struct flow *flow = key ? flow_find(key) : 0;
	struct opens *o = key ? opens_find(key) : 0;
	struct ring_head *head = ring_top();
	__u8 *ring = ring_bytes();
	struct gathering_open g = { .o = o };
	__u32 done, ahead, ahead_length;
	bool ready = false;

	if (!position || !flow || !o || !head || !ring || !WITHIN(bytes, 1, OPEN_BYTES + OPEN_AHEAD))
		return 0;
	bpf_spin_lock(&o->lock);
	if (opens_are(o, key) && o->state == OPENS_LEAVING && o->given == ack && flow->acked == ack &&
	    bytes == o->bytes + flow->ahead_length) {
		o->state = OPENS_LEFT;
		ready = true;
	}
	bpf_spin_unlock(&o->lock);
	if (!ready)
		return ADOPT_GATHER_LATE;
	*position = ring_take(head, bytes);
	g.at = ring_offset(*position);
	bpf_loop(OPEN_MAX, adopt_open_one, &g, 0);
	done = g.done;
	ahead = flow->ahead;
	ahead_length = flow->ahead_length;
	if (g.failed || done + ahead_length != bytes || !WITHIN(done, 0, OPEN_BYTES))
		return 0;
	if (WITHIN(ahead_length, 1, OPEN_AHEAD) &&
	    (bpf_probe_read_kernel(ring + ring_offset(*position) + done, ahead_length, ring + ring_offset(ahead)) ||
	     !ring_holds(head, ahead)))
		return 0;
	flow->client_next += ahead_length;
	flow->ahead_length = 0;
	flow->query_seq = flow->client_next - bytes;
	flow->server_seq = ack;
	flow->reply_length = 0;
	flow->seen_ms = bpf_ktime_get_boot_ns() / 1000000;
	__sync_fetch_and_xor((__u32 *)&flow->state, FLOW_OPEN ^ FLOW_KERNEL);
	return 1;
}

/* The longest payload that a packet can have whatever its headers are (types.h, OPEN_AHEAD). */
#define JOINED_MAX 15872

/* Puts `first` bytes of the ring, from `position`, in front of the payload (0: none), after
 * cutting off what was received before. The result begins at `seq`. It is put together in the
 * ring, so that the packet's headers stay where they are. */
__noinline int adopt_join(struct __sk_buff *ctx, const struct incoming *in, __u32 position, __u32 first, __u32 seq)
{
	struct ring_head *head = ring_top();
	__u8 *ring = ring_bytes(), header[TCP_HEADER_MAX] = {};
	__u32 network, transport, bytes, length, at, joined;
	__be16 old, new;
	__be32 be_seq = bpf_htonl(seq);
	__u16 check = 0;
	__u64 sum;

	if (!in || !head || !ring)
		return 0;
	network = in->network;
	transport = in->transport;
	bytes = in->header;
	length = in->length;
	if (!WITHIN(first, 0, OPEN_BYTES + OPEN_AHEAD) || !WITHIN(length, 0, SUM_MAX - AHEAD_MAX) ||
	    !WITHIN(bytes, sizeof(struct tcp_header), TCP_HEADER_MAX))
		return 0;
	at = ring_offset(ring_take(head, first + length));
	if (WITHIN(first, 1, OPEN_BYTES + OPEN_AHEAD) &&
	    (bpf_probe_read_kernel(ring + at, first, ring + ring_offset(position)) || !ring_holds(head, position)))
		return 0;
	if (WITHIN(length, 1, SUM_MAX - AHEAD_MAX) &&
	    bpf_skb_load_bytes(ctx, transport + bytes + in->trimmed, ring + at + first, length))
		return 0;
	joined = first + length;
	/* This invalidates a checksum that the interface made of the whole packet
	 * (CHECKSUM_COMPLETE). */
	if (bpf_skb_change_tail(ctx, transport + bytes + joined, 0) || !WITHIN(joined, 1, SUM_MAX) ||
	    bpf_skb_store_bytes(ctx, transport + bytes, ring + at, joined, 0))
		return 0;

	if (in->ipv6) {
		new = bpf_htons(transport + bytes + joined - network - 40);
		if (bpf_skb_store_bytes(ctx, network + 4, &new, sizeof(new), 0))
			return 0;
	} else {
		new = bpf_htons(transport + bytes + joined - network);
		if (bpf_skb_load_bytes(ctx, network + 2, &old, sizeof(old)) ||
		    bpf_l3_csum_replace(ctx, network + 10, old, new, sizeof(new)) ||
		    bpf_skb_store_bytes(ctx, network + 2, &new, sizeof(new), 0))
			return 0;
	}
	/* Writes a complete checksum even where offloads would finish it: every receiver accepts
	 * that. */
	if (bpf_skb_store_bytes(ctx, transport + 4, &be_seq, sizeof(be_seq), 0) ||
	    bpf_skb_store_bytes(ctx, transport + 16, &check, sizeof(check), 0) ||
	    bpf_skb_load_bytes(ctx, transport, header, bytes))
		return 0;
	sum = in->ipv6 ? sum_addresses6(in->who.client, in->who.server, IP_TCP) :
			 sum_addresses4(in->who.client[3], in->who.server[3], IP_TCP);
	sum += bpf_htons(bytes + joined);
	sum += (__u32)bpf_csum_diff(0, 0, (__be32 *)header, sizeof(header), 0);
	sum += sum_ring(at, joined);
	check = ~sum_fold(sum);
	return !bpf_skb_store_bytes(ctx, transport + 16, &check, sizeof(check), 0);
}

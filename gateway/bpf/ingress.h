/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * XDP: what clients send. The tables of PROTOCOL.md, "The verdicts", row by row, in their order.
 * entry.h has the tables "Data on an entry" and "Acknowledgements".
 *
 * Before working on this file read PROTOCOL.md up to "The reply". parse.h, cookie.h and verdict.h
 * contain the details.
 */
#pragma once

#include "beside.h"
#include "entry.h"
#include "pmtu.h"
#include "several.h"
#include "syncache.h"

/* SYN-cache mode: makes an entry SYN if there is room. */
static __always_inline void syn_cache(struct verdict *v, __u32 cookie, __u32 tsval)
{
	const struct offer *offer = &v->w->in.offer;
	struct flow fresh = {
		.seen_ms = v->now / 1000000,
		.query_seq = v->w->in.seq + 1,
		.client_next = v->w->in.seq + 1,
		.server_seq = cookie + 1,
		.acked = cookie + 1,
		.window = v->w->in.window,
		.tsval = tsval,
		.client_tsval = v->w->in.tsval,
		.mss = offer->mss,
		.state = FLOW_SYN,
		.flags = (offer->timestamps ? FLOW_TIMESTAMPS : 0) | (offer->sack ? FLOW_SACK : 0),
		.client_wscale = offer->wscale,
	};

	if (v->flow) {
		if (v->flow->state == FLOW_SYN)
			*v->flow = fresh;
		return;
	}
	if (!syncache_enter(v->s, &v->w->key))
		count(COUNT_SYN_CACHE_FULL);
	else if (bpf_map_update_elem(&flows, &v->w->key, &fresh, BPF_ANY))
		syncache_leave(&v->w->key);
}

/* A client wants to connect. It gets a SYN/ACK, and nothing is kept here. */
static __always_inline enum fate on_syn(struct xdp_md *ctx, struct verdict *v)
{
	struct offer *offer = &v->w->in.offer;
	struct answer *a = &v->w->answer;
	__u32 tsval, mss;

	/* No handshake has these flags. Only attackers and fingerprinting tools would profit
	 * from an answer. */
	if (v->w->in.flags & (FLAG_ACK | FLAG_FIN | FLAG_RST))
		return drop(COUNT_ODD_FLAGS);
	if (!payload_take(ctx, v->w))
		return drop(COUNT_BAD_CHECKSUM);
	/* The client was switched off, or its router uses a port again: the kernel knows how to
	 * end its old connection. If there is no server, the kernel refuses the connection; and
	 * it serves listeners whose connections only the kernel can begin. */
	switch (beside(ctx, 1)) {
	case BESIDE_CONNECTION:
	case BESIDE_TIME_WAIT:
		return pass(COUNT_KERNEL_HAS_IT);
	case BESIDE_NO_SERVER:
		return pass(COUNT_SYN_PASSED);
	}
	if (!client_served(v->s, v->w->in.who.client))
		return pass(COUNT_SYN_ASIDE);
	if (!source_allows(v->s, v->w->in.who.client, v->now, RATE_SYN))
		return drop(COUNT_SYN_LIMITED);

	if (!v->s->window_scaling)
		offer->wscale = WSCALE_NONE;
	v->w->in.who.client_isn = bpf_htonl(v->w->in.seq);
	a->seq = cookie_make(v->s, &v->w->in.who, v->now, offer, &tsval);
	a->ack = v->w->in.seq + 1;
	a->flags = FLAG_SYN | FLAG_ACK;
	a->window = WINDOW_PLAIN;
	mss = our_mss(v);
	a->option[0] = bpf_htonl(2 << 24 | 4 << 16 | mss);
	a->words = 1;
	if (offer->timestamps) {
		a->option[1] = offer->sack ? bpf_htonl(0x0402080a) : bpf_htonl(0x0101080a);
		a->option[2] = bpf_htonl(tsval);
		a->option[3] = bpf_htonl(v->w->in.tsval);
		a->words = 4;
		if (offer->wscale != WSCALE_NONE) {
			a->option[4] = bpf_htonl(0x01030300 | WSCALE_OURS);
			a->words = 5;
		}
	}
	if (v->s->syncache)
		syn_cache(v, a->seq, tsval);
	count(COUNT_SYN);
	return FATE_ANSWER;
}

static __always_inline enum fate on_rst(struct xdp_md *ctx, struct verdict *v)
{
	/* The kernel may have the connection. */
	if (!v->flow || flow_left(v->flow))
		return FATE_PASS;
	if (!payload_take(ctx, v->w))
		return drop(COUNT_BAD_CHECKSUM);
	/* Protects against guesses: a RST only counts within the data that the client has sent (stricter
	 * than RFC 5961 section 3.2). */
	if (!seq_within(v->w->in.seq, v->flow->query_seq, v->flow->client_next + v->flow->ahead_length))
		return FATE_STRANGE;
	flow_remove(v);
	return drop(COUNT_RESET);
}

/* Whether a segment that is not one whole query may be several. */
static __always_inline bool several_may_open(const struct verdict *v, bool later)
{
	__u32 length = v->w->in.length;

	return v->s->several_queries && !v->s->close_fin && !v->s->at_once && length > 2 * QUERY_MIN && length <= QUERY_MAX &&
	       DNS_PREFIX + dns_u16(scratch_query(v->w)->bytes) < length &&
	       !(later && v->flow && v->flow->ahead_length);
}

/* Makes an entry for several queries. The client has everything that was sent before. */
static __always_inline bool several_open(struct verdict *v, const struct offer *offer, bool later)
{
	if (later) {
		flow_note(v, v->flow);
		return several_begin(v->now, 1);
	}
	v->w->fresh = (struct flow){
		.seen_ms = v->now / 1000000,
		.query_seq = v->w->in.seq,
		.client_next = v->w->in.seq,
		.server_seq = v->w->in.ack,
		.acked = v->w->in.ack,
		.window = (__u32)v->w->in.window << (offer->wscale < WSCALE_NONE ? offer->wscale : 0),
		.mss = path_mss(&v->w->in, offer->mss, v->now),
		.state = FLOW_IDLE,
		.flags = (offer->timestamps ? FLOW_TIMESTAMPS : 0) | (offer->sack ? FLOW_SACK : 0),
		.client_wscale = offer->wscale,
	};
	if (offer->timestamps) {
		v->w->fresh.client_tsval = v->w->in.tsval;
		v->w->fresh.tsval = v->w->in.tsecr | COOKIE_HEARD;
	}
	if (bpf_map_update_elem(&flows, &v->w->key, &v->w->fresh, BPF_ANY))
		return false;
	v->flow = flow_find(&v->w->key);
	if (several_begin(v->now, 1))
		return true;
	flow_remove(v);
	return false;
}

/* "The first data": a segment with data or FIN after a handshake of ours. With `later`, "A later
 * query": behind the reply of the entry. */
/* Long: a sequence of reasons to leave the segment alone, each with its own counter. */
static __always_inline enum fate on_first_data(struct xdp_md *ctx, struct verdict *v, const struct offer *offer, bool later)
{
	__u32 length = v->w->in.length;
	struct flow fresh = {
		.seen_ms = v->now / 1000000,
		.query_seq = v->w->in.seq,
		.client_next = v->w->in.seq + length,
		.server_seq = v->w->in.ack,
		.acked = v->w->in.ack,
		.window = (__u32)v->w->in.window << (offer->wscale < WSCALE_NONE ? offer->wscale : 0),
		.query_length = length,
		.mss = path_mss(&v->w->in, offer->mss, v->now),
		.state = FLOW_QUERY,
		.flags = (offer->timestamps ? FLOW_TIMESTAMPS : 0) | (offer->sack ? FLOW_SACK : 0),
		.client_wscale = offer->wscale,
	};
	struct ring_head *head;
	__u64 question;
	__u8 *bytes;
	int server;

	/* The port was used before. What is left of that connection is removed. */
	if (v->flow && !later)
		flow_remove(v);
	/* A client that connects and says nothing: a probe, or a health check. */
	if (!length) {
		count(COUNT_CLOSED);
		return answer_fin(v);
	}
	/* Split or pipelined queries, and anything that is not DNS: the kernel's TCP can wait
	 * for the rest. */
	if (length > QUERY_MAX || !query_read(scratch_query(v->w), length, &v->w->query)) {
		if (several_may_open(v, later) && several_open(v, offer, later))
			return several_take(ctx, v->now);
		return pass(later ? COUNT_TO_KERNEL_SECOND : COUNT_TO_KERNEL_UNUSUAL);
	}
	/* A transfer takes many messages, more than one reply of ours can hold. */
	if (v->s->axfr_detect && v->w->query.transfer)
		return pass(COUNT_TO_KERNEL_TRANSFER);
	/* Only the server can say how long a connection may be idle, and it does so only over
	 * TCP (RFC 7828 section 3.3). */
	if (v->w->query.keepalive)
		return pass(COUNT_TO_KERNEL_KEEPALIVE);
	/* Its reply would be truncated again over UDP. */
	question = question_hash(&v->s->keys[0], scratch_query(v->w), v->w->query.question);
	if (large_name(v->s, question, v->now))
		return pass(COUNT_TO_KERNEL_LARGE);
	/* The server went away after the handshake: the kernel's TCP asks it, or resets the
	 * connection. */
	server = beside(ctx, 1);
	if (server == BESIDE_NO_SERVER)
		return pass(COUNT_TO_KERNEL_DOWN);
	/* The kernel has the connection, and a late copy of the first query made the entry. */
	if (later && server != BESIDE_SERVER)
		return pass(COUNT_TO_KERNEL_SECOND);
	/* The kernel's TCP serves what a source asks beyond its rate, as it does without us. */
	if (!source_allows(v->s, v->w->in.who.client, v->now, later ? RATE_LATER : RATE_QUERY))
		return pass(later ? COUNT_TO_KERNEL_SECOND : COUNT_QUERY_LIMITED);

	if (v->w->in.flags & FLAG_FIN)
		flow_note_fin(&fresh);
	if (later && v->flow) {
		__u32 earlier = v->w->in.seq - v->flow->query_seq + v->flow->earlier;

		fresh.earlier = earlier < 0xffff ? earlier : 0xffff;
		fresh.tsval = v->flow->tsval;
		fresh.client_tsval = v->flow->client_tsval;
		/* RFC 7323 section 4.3, as in flow_note. */
		if (fresh.flags & FLOW_TIMESTAMPS && v->w->in.offer.timestamps &&
		    !seq_before(v->w->in.tsval, fresh.client_tsval))
			fresh.client_tsval = v->w->in.tsval;
		count(COUNT_QUERY_LATER);
	} else if (offer->timestamps) {
		fresh.client_tsval = v->w->in.tsval;
		fresh.tsval = v->w->in.tsecr | COOKIE_HEARD;
	}
	fresh.dns_id = v->w->query.id;
	fresh.question = question;
	fresh.asked_us = v->now / 1000;
	if (!v->w->query.opt)
		fresh.flags |= FLOW_EDNS_ADDED;
	if (v->s->at_once)
		fresh.flags |= FLOW_AT_ONCE | FLOW_ACK_DUE;
	/* The ring stores the query as it came, so that the kernel's TCP can get it if we cannot
	 * send the reply. */
	head = ring_top();
	bytes = ring_bytes();
	if (!head || !bytes || length > QUERY_MAX)
		return drop(COUNT_QUERY_NO_ROOM);
	fresh.stored = ring_take(head, length);
	if (bpf_probe_read_kernel(bytes + ring_offset(fresh.stored), length, scratch_query(v->w)) ||
	    bpf_map_update_elem(&flows, &v->w->key, &fresh, BPF_ANY))
		return drop(COUNT_QUERY_NO_ROOM);
	count(COUNT_QUERY);
	return FATE_DATAGRAM;
}

/* Reads the options that parse_frame did not read. */
static __always_inline void options_rest(struct xdp_md *ctx, struct incoming *in)
{
	struct option_bytes bytes = {};
	struct options options = { .offer = in->offer };
	__u32 length = in->header - sizeof(struct tcp_header);

	if (!WITHIN(length, 1, OPTIONS_MAX) ||
	    bpf_xdp_load_bytes(ctx, in->transport + sizeof(struct tcp_header), bytes.at, length))
		return;
	options_read(&bytes, length, &options);
	in->offer = options.offer;
	in->tsval = options.tsval;
	in->tsecr = options.tsecr;
}

/* Does the work that is only needed for segments that do not belong to the kernel. */
static __always_inline void look_closer(struct xdp_md *ctx, struct verdict *v)
{
	v->now = bpf_ktime_get_boot_ns();
	if (v->w->in.unread)
		options_rest(ctx, &v->w->in);
}

/* Whether the segment shows a cookie for this initial sequence number of the client; if so, what
 * was agreed on. Separate functions, so that the verifier checks each once. */
__noinline int cookie_shown(__u64 now, __u32 client_isn, struct offer *offer)
{
	struct settings *s = settings_now();
	struct scratch *w = scratch_own();

	if (!s || !w || !offer)
		return 0;
	w->in.who.client_isn = bpf_htonl(client_isn);
	return cookie_check(s, &w->in.who, now, w->in.ack - 1, w->in.offer.timestamps, w->in.tsecr, offer);
}

__noinline int checksum_right(struct xdp_md *ctx)
{
	struct scratch *w = scratch_own();

	return w && payload_take(ctx, w);
}

/* A client's segment to a server address and port, judged by what we know of its connection. */
/* Long: a list of cases, in the order of PROTOCOL.md. */
static __always_inline enum fate on_known(struct xdp_md *ctx, struct verdict *v)
{
	struct incoming *in = &v->w->in;
	struct flow *flow = v->flow;
	struct offer offer = {};
	int pure_ack, right = 0;
	bool later;

	if (in->flags & FLAG_SYN) {
		look_closer(ctx, v);
		return on_syn(ctx, v);
	}
	if (in->flags & FLAG_RST)
		return on_rst(ctx, v);
	/* Every segment but a SYN or RST has ACK (RFC 9293 section 3.10.7.4). */
	if (!(in->flags & FLAG_ACK))
		return drop(COUNT_ODD_FLAGS);
	/* Most segments of long connections belong to the kernel, which checks everything else
	 * about them. */
	if ((!flow || flow_left(flow)) && beside(ctx, 0) == BESIDE_CONNECTION) {
		socket_mark(ctx);
		return pass(COUNT_KERNEL_HAS_IT);
	}
	look_closer(ctx, v);
	pure_ack = !in->length && !(in->flags & FLAG_FIN);
	/* A bare ACK without an entry changes nothing. */
	if ((flow || !pure_ack) && !payload_take(ctx, v->w))
		return drop(COUNT_BAD_CHECKSUM);

	if (flow && flow->state == FLOW_OPEN) {
		enum fate fate = on_open(v->now);

		if (fate == FATE_QUERIES)
			return several_take(ctx, v->now);
		if (fate != FATE_NEXT && (fate != FATE_STRANGE || pure_ack))
			return fate;
	}
	if (flow && flow_probed(v, flow))
		return on_probe(v, flow);
	if (flow && pure_ack)
		return on_ack(v);
	if (flow && flow->state != FLOW_OPEN && in->length) {
		__u32 received = flow_received(flow, in->seq, in->ack, in->length, in->flags & FLAG_FIN);

		if (!received && flow_is_earlier(flow, in->seq, in->ack))
			return on_earlier(v, flow);
		if (received && !payload_trim(ctx, received))
			return drop(COUNT_XDP_ERROR);
	}
	later = flow && is_later(v, flow);
	if (later || (flow && flow->state == FLOW_SYN && in->seq == flow->query_seq && in->ack == flow->server_seq)) {
		offer = (struct offer){ .mss = flow->mss,
					.wscale = flow->client_wscale,
					.sack = !!(flow->flags & FLOW_SACK),
					.timestamps = !!(flow->flags & FLOW_TIMESTAMPS) };
		right = 1;
		/* The client may leave out what it offered. Then its SYN's timestamps hold. */
		if (!later && offer.timestamps && !in->offer.timestamps) {
			in->tsval = flow->client_tsval;
			in->tsecr = flow->tsval;
		}
	} else if (!flow || flow->state == FLOW_SYN || flow->state == FLOW_OPEN ||
		   /* What fits the entry also fits a new connection in at most one of 2^27
		    * cases, so there is no need to check. */
		   (in->seq != flow->query_seq && !(seq_within(in->seq, flow->query_seq, flow->client_next) &&
						    seq_within(in->ack, flow->server_seq, flow_end(flow) + 1)))) {
		right = cookie_shown(v->now, in->seq - 1, &offer);
	}
	/* The handshake's third segment contains nothing that the query does not contain too. */
	if (right && pure_ack)
		return drop(COUNT_HANDSHAKE_ACK);
	if (right)
		return on_first_data(ctx, v, &offer, later);
	if (flow && flow->state == FLOW_OPEN)
		return FATE_STRANGE;
	if (flow && several_may_begin(v, flow) && several_begin(v->now, 0)) {
		enum fate fate = on_open(v->now);

		return fate == FATE_QUERIES ? several_take(ctx, v->now) : fate;
	}
	if (flow)
		return on_data(v);
	return FATE_STRANGE;
}

static __always_inline enum fate on_segment(struct xdp_md *ctx, struct verdict *v)
{
	struct incoming *in = &v->w->in;
	enum fate fate = on_known(ctx, v);
	struct offer offer = {};

	if (fate != FATE_STRANGE)
		return fate;
	/* This can happen even with an entry: a late copy of the first query makes one after the
	 * kernel took the connection over. */
	if (beside(ctx, 0) != BESIDE_SERVER)
		return pass(COUNT_KERNEL_HAS_IT);
	/* There may be an entry of the port's last connection. */
	if (!(in->flags & FLAG_RST) && may_probe(in) && cookie_shown(v->now, in->seq, &offer))
		return checksum_right(ctx) ? answer_probe(v, &offer) : drop(COUNT_BAD_CHECKSUM);
	if (v->flow && v->flow->state != FLOW_KERNEL)
		return drop(COUNT_STRANGE);
	if (!in->length && !(in->flags & FLAG_FIN))
		return drop(COUNT_UNKNOWN_ACK);
	count(in->length ? COUNT_UNKNOWN_DATA : COUNT_UNKNOWN_FIN);
	/* The connection is over, or was opened so long ago that its cookie has expired. */
	if (in->offer.timestamps && in->tsecr & COOKIE_HEARD)
		return answer_reset(v);
	in->who.client_isn = bpf_htonl(in->seq - 1);
	if (cookie_was(v->s, &in->who, v->now, in->ack - 1, in->offer.timestamps, in->tsecr))
		return answer_reset(v);
	/* It may belong to a new connection whose first data was lost or overtaken. */
	return FATE_DROP;
}

/* "Too long for the path": an ICMP message, most likely from a router. */
static __always_inline enum fate on_icmp(struct xdp_md *ctx, struct verdict *v)
{
	struct incoming *in = &v->w->in;
	__u32 mtu = too_big_read(ctx);
	struct flow *flow;

	forget();
	/* The kernel gets messages that are not about our segments, and those that tell us
	 * nothing new. */
	if (!mtu || in->who.server_port != bpf_htons(v->s->port) ||
	    !flow_key_of(&v->w->key, in->who.client, in->who.client_port, in->who.server))
		return FATE_PASS;
	flow = flow_find(&v->w->key);
	if (flow && flow->state == FLOW_OPEN)
		return several_too_big(v->now, mtu);
	if (!flow || (flow->state != FLOW_REPLIED && flow->state != FLOW_CLOSING) ||
	    in->seq - flow->acked >= flow_end(flow) - flow->acked ||
	    !flow_shorten(flow, our_mss(v), mtu - (in->ipv6 ? HEADERS6 : HEADERS4)))
		return FATE_PASS;
	count(COUNT_PATH_MTU);
	path_learn(in->who.client, mtu, v->now);
	flow->repeats = FLOW_RECOVERING;
	flow_seen(v, flow);
	/* All segments of that length were lost. This sends the first missing one, and each
	 * acknowledgement brings the next. */
	return answer_again(v, flow, flow->acked - flow->server_seq) ? FATE_ANSWER : FATE_PASS;
}

SEC("xdp.frags")
int gateway_xdp(struct xdp_md *ctx)
{
	void *data = CONTEXT_FIELD(struct xdp_md, ctx, data), *end = CONTEXT_FIELD(struct xdp_md, ctx, data_end);
	__u32 frame = bpf_xdp_get_buff_len(ctx);
	struct scratch *w = scratch_own();
	struct verdict v = { .s = settings_now(), .w = w };
	enum parsed parsed;
	enum fate fate;

	if (!w || !v.s || !v.s->active)
		return XDP_PASS;
	parsed = parse_frame(data, end, frame, v.s->port, &w->in);
	switch (parsed) {
	case PARSED_OTHER:
	case PARSED_FRAGMENT: /* tc ingress looks at it */
		return XDP_PASS;
	case PARSED_MALFORMED:
		count(COUNT_MALFORMED);
		return XDP_PASS;
	case PARSED_MALFORMED_TCP:
		if (bpf_map_lookup_elem(&servers, w->in.who.server))
			count(COUNT_MALFORMED);
		return XDP_PASS;
	case PARSED_SEGMENT:
	case PARSED_ICMP:
		break;
	}
	forget();
	if (parsed == PARSED_SEGMENT && !flow_key_of(&w->key, w->in.who.client, w->in.who.client_port, w->in.who.server))
		return XDP_PASS;
	w->answer.ack = 0;
	w->answer.window = 0;
	w->answer.words = 0;
	w->answer.payload = 0;
	w->split.count = 0;
	if (parsed == PARSED_ICMP) {
		v.now = bpf_ktime_get_boot_ns();
		fate = on_icmp(ctx, &v);
	} else {
		v.flow = flow_find(&w->key);
		fate = on_segment(ctx, &v);
	}
	forget();
	switch (fate) {
	case FATE_PASS:
		return XDP_PASS;
	case FATE_DROP:
		return XDP_DROP;
	case FATE_ANSWER:
		return answer_send(ctx, frame, w, v.s->generic);
	case FATE_STRANGE: /* never: on_segment resolves it */
	case FATE_NEXT:
	case FATE_QUERIES:
	case FATE_DATAGRAM:
		break;
	}
	return datagram_send(ctx, frame, w, query_raise_edns(scratch_query(w), w->in.length, &w->query, v.s->edns_size));
}

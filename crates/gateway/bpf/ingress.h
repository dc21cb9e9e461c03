/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * XDP: what clients send. The tables of PROTOCOL.md, "The verdicts", row by row, in their order.
 *
 * Before working on this file read PROTOCOL.md up to "The reply"; parse.h, cookie.h and answer.h say how.
 */
#pragma once

#include "answer.h"
#include "pmtu.h"
#include "syncache.h"

/* What becomes of a segment. */
enum fate {
	FATE_PASS,     /* to the kernel, as it came */
	FATE_DROP,
	FATE_ANSWER,   /* the answer goes to the client */
	FATE_DATAGRAM, /* the query goes to the server */
	FATE_STRANGE,  /* it fits no state of its entry */
};

/* A segment on its way to a verdict. */
struct verdict {
	const struct settings *s;
	struct scratch *w;
	struct flow *flow; /* the connection's entry, or 0 */
	__u64 now;	   /* boot clock */
};

static __always_inline enum fate drop(enum counter which)
{
	count(which);
	return FATE_DROP;
}

static __always_inline enum fate pass(enum counter which)
{
	count(which);
	return FATE_PASS;
}

static __always_inline __u16 our_mss(const struct verdict *v)
{
	return v->w->in.ipv6 ? v->s->mss6 : v->s->mss4;
}

static __always_inline void flow_seen(struct verdict *v, struct flow *flow)
{
	flow->seen_ms = v->now / 1000000;
}

/* Notes the window, and the timestamp if it is later (RFC 7323 section 4.3). */
static __always_inline void flow_note(struct verdict *v, struct flow *flow)
{
	flow->window = (__u32)v->w->in.window << (flow->client_wscale < WSCALE_NONE ? flow->client_wscale : 0);
	if (flow->flags & FLOW_TIMESTAMPS && v->w->in.offer.timestamps && !seq_before(v->w->in.tsval, flow->client_tsval))
		flow->client_tsval = v->w->in.tsval;
	flow_seen(v, flow);
}

static __always_inline void flow_note_fin(struct flow *flow)
{
	if (!(flow->flags & FLOW_CLIENT_FIN))
		flow->client_next++;
	flow->flags |= FLOW_CLIENT_FIN;
}

/* The entry is removed. */
static __always_inline void flow_remove(struct verdict *v)
{
	if (v->flow && v->flow->state == FLOW_SYN)
		syncache_leave(&v->w->key);
	bpf_map_delete_elem(&flows, &v->w->key);
}

/* Answers that come of the segment alone. */

static __always_inline enum fate answer_fin(struct verdict *v)
{
	v->w->answer.seq = v->w->in.ack;
	v->w->answer.ack = v->w->in.seq + 1;
	v->w->answer.flags = FLAG_FIN | FLAG_ACK;
	v->w->answer.window = WINDOW_PLAIN;
	if (v->w->in.offer.timestamps)
		answer_timestamps(&v->w->answer, v->w->in.tsecr, v->w->in.tsval);
	return FATE_ANSWER;
}

static __always_inline enum fate answer_reset(struct verdict *v)
{
	v->w->answer.seq = v->w->in.ack; /* RFC 9293 section 3.10.7.1 */
	v->w->answer.flags = FLAG_RST;
	return FATE_ANSWER;
}

/* Answers that come of an entry. */

static __always_inline enum fate answer_from(struct verdict *v, const struct flow *flow, __u32 seq, __u32 ack)
{
	v->w->answer.seq = seq;
	v->w->answer.ack = ack;
	v->w->answer.flags = FLAG_ACK;
	v->w->answer.window = flow_our_window(flow);
	if (flow->flags & FLOW_TIMESTAMPS)
		answer_timestamps(&v->w->answer, flow->tsval, flow->client_tsval);
	return FATE_ANSWER;
}

/* All that the client has sent is acknowledged. */
static __always_inline enum fate answer_ack(struct verdict *v, struct flow *flow)
{
	/* Of the client's FIN too: that this is lost nothing would say, so it is sent as often as it is missed. */
	if (flow->state != FLOW_CLOSING || !(flow->flags & FLOW_CLIENT_FIN))
		flow->flags &= ~FLOW_QUERY_UNACKED;
	return answer_from(v, flow, v->w->in.ack, flow->client_next);
}

/* The reply's segment that begins at `offset`, at most its length; if it is still in the ring. */
static __always_inline int answer_again(struct verdict *v, const struct flow *flow, __u32 offset)
{
	struct ring_head *head = ring_top();
	__u32 left = flow->reply_length - offset, size = flow_segment_size(flow, our_mss(v));

	if (!head || !ring_holds(head, flow->stored))
		return 0;
	answer_from(v, flow, flow->server_seq + offset,
		    flow->flags & FLOW_QUERY_UNACKED ? flow->query_seq : flow->client_next);
	if (left <= size) {
		size = left;
		if (left)
			v->w->answer.flags |= FLAG_PSH;
		if (flow->state == FLOW_CLOSING)
			v->w->answer.flags |= FLAG_FIN;
	}
	/* The client's FIN is acknowledged with ours: it must not be left waiting for that. */
	if (flow->flags & FLOW_CLIENT_FIN && !(flow->flags & FLOW_QUERY_UNACKED) && !(v->w->answer.flags & FLAG_FIN))
		v->w->answer.ack--;
	v->w->answer.position = flow->stored;
	v->w->answer.offset = offset;
	v->w->answer.payload = size;
	count(COUNT_RESENT);
	return 1;
}

/* SYN-cache mode: an entry SYN, where there is room. */
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

/* A client that wants to connect: it gets a SYN/ACK, of which nothing is kept here. */
static __always_inline enum fate on_syn(struct verdict *v)
{
	struct offer *offer = &v->w->in.offer;
	struct answer *a = &v->w->answer;
	__u32 tsval, mss;

	/* Nobody's handshake. Answering what only attackers and fingerprinting tools send helps them alone. */
	if (v->w->in.flags & (FLAG_ACK | FLAG_FIN | FLAG_RST))
		return drop(COUNT_ODD_FLAGS);
	if (!source_allows(v->s, v->w->in.who.client, v->now, RATE_SYN))
		return drop(COUNT_SYN_LIMITED);

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

static __always_inline enum fate on_rst(struct verdict *v)
{
	/* It may be for a connection that the kernel has. */
	if (!v->flow || flow_left(v->flow))
		return FATE_PASS;
	/* A guess: a RST counts within what the client has sent alone (RFC 5961 section 3.2, more strictly). */
	if (!seq_within(v->w->in.seq, v->flow->query_seq, v->flow->client_next + v->flow->ahead_length))
		return FATE_STRANGE;
	flow_remove(v);
	return drop(COUNT_RESET);
}

/* Whether the kernel has a socket of this connection, other than a listener. */
static __always_inline int kernel_has(struct xdp_md *ctx, const struct incoming *in)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sock;
	__u32 size;
	int has;

	if (in->ipv6) {
		__builtin_memcpy(tuple.ipv6.saddr, in->who.client, 16);
		__builtin_memcpy(tuple.ipv6.daddr, in->who.server, 16);
		tuple.ipv6.sport = in->who.client_port;
		tuple.ipv6.dport = in->who.server_port;
		size = sizeof(tuple.ipv6);
	} else {
		tuple.ipv4.saddr = in->who.client[3];
		tuple.ipv4.daddr = in->who.server[3];
		tuple.ipv4.sport = in->who.client_port;
		tuple.ipv4.dport = in->who.server_port;
		size = sizeof(tuple.ipv4);
	}
	sock = bpf_skc_lookup_tcp(ctx, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sock)
		return 0;
	has = sock->state != BPF_TCP_LISTEN;
	bpf_sk_release(sock);
	return has;
}

/* "The first data": a segment with data or FIN after a handshake of ours. */
static __always_inline enum fate on_first_data(struct verdict *v, const struct offer *offer)
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
	__u8 *bytes;

	/* The port was used before: what is left of that connection goes. */
	if (v->flow)
		flow_remove(v);
	/* A client that connects and says nothing: a probe, or a health check. */
	if (!length) {
		count(COUNT_CLOSED);
		return answer_fin(v);
	}
	/* Split or pipelined queries, and what is no DNS at all: the kernel's TCP can wait for the rest. */
	if (length > QUERY_MAX || !query_read(scratch_query(v->w), length, &v->w->query))
		return pass(COUNT_TO_KERNEL_UNUSUAL);
	/* Many messages, and more of them than one segment holds. */
	if (v->s->axfr_detect && v->w->query.transfer)
		return pass(COUNT_TO_KERNEL_TRANSFER);
	/* Asked over UDP its reply would be cut off again. */
	if (large_name(v->s, scratch_query(v->w), v->w->query.question, v->now))
		return pass(COUNT_TO_KERNEL_LARGE);
	if (!source_allows(v->s, v->w->in.who.client, v->now, RATE_QUERY))
		return drop(COUNT_QUERY_LIMITED);

	if (v->w->in.flags & FLAG_FIN)
		flow_note_fin(&fresh);
	if (v->w->in.offer.timestamps) {
		fresh.client_tsval = v->w->in.tsval;
		fresh.tsval = v->w->in.tsecr | COOKIE_HEARD;
	}
	fresh.dns_id = v->w->query.id;
	if (!v->w->query.opt)
		fresh.flags |= FLOW_EDNS_ADDED;
	/* The ring has it as it came, for the kernel's TCP if the reply is too much for us. */
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

/* The client misses its reply from `place` on, which is sent again. */
static __always_inline void flow_missed(struct verdict *v, struct flow *flow, __u32 place)
{
	/* RFC 4821 section 7.2, as in Linux (tcp_base_mss); RFC 8200 section 5. */
	__u32 least = v->w->in.ipv6 ? 1220 : 1024;

	if (flow->acked != place || flow->repeats < FLOW_RECOVERING)
		flow->repeats = FLOW_RECOVERING;
	else if (flow->repeats < FLOW_BLACK_HOLE)
		flow->repeats++;
	flow->acked = place;
	/* It may be too long for the path, and no router says so (RFC 2923 section 2.1). */
	if (flow->repeats == FLOW_BLACK_HOLE && flow_end(flow) - place > least && flow_shorten(flow, our_mss(v), least))
		count(COUNT_BLACK_HOLE);
}

/* Data at the query's place, when its reply was sent: the client misses a part of it, our FIN, or our ACK. */
static __always_inline enum fate on_reply_missed(struct verdict *v, struct flow *flow)
{
	__u32 offset = v->w->in.ack - flow->server_seq, length = flow->reply_length;
	int closing = flow->state == FLOW_CLOSING;

	/* It misses our ACK alone, as that of several segments is held back. */
	if (offset == length + closing) {
		if (!closing)
			flow->state = FLOW_IDLE;
		flow_note(v, flow);
		count(COUNT_ACK);
		return answer_ack(v, flow);
	}
	/* This reply was acknowledged as a whole before. */
	if (flow->state == FLOW_IDLE)
		return FATE_STRANGE;
	if (offset > length)
		offset = 0;
	flow_note(v, flow);
	flow_missed(v, flow, flow->server_seq + offset);
	if (answer_again(v, flow, offset))
		return FATE_ANSWER;
	/* Asking the server again could give another reply, of which a part would be mixed with this one. */
	flow_remove(v);
	count(COUNT_RESEND_GONE);
	return answer_reset(v);
}

/* Whether the client misses a part of a reply that the ring has. A packet of its own brings it one segment, and only one of
 * the server's brings it all: the server is asked again, unless it was already, in vain. */
static __always_inline bool misses_some(const struct verdict *v, const struct flow *flow)
{
	__u32 missing = flow_end(flow) - v->w->in.ack;
	struct ring_head *head = ring_top();

	return (flow->state == FLOW_REPLIED || flow->state == FLOW_CLOSING) &&
	       !(flow->flags & FLOW_AGAIN) && missing - 1 < flow->reply_length && head && ring_holds(head, flow->stored);
}

/* More than the one query that is with the server: the kernel's TCP is to answer all of it. What was stored of the first
 * query is put before the second by tc ingress, where a packet can be given any length. */
static __always_inline enum fate leave_to_kernel(struct verdict *v, struct flow *flow)
{
	if (v->w->in.ack != flow->server_seq || !flow_leave_query(flow, FLOW_SLOW, FLOW_SLOW, 0))
		return FATE_STRANGE;
	flow_note(v, flow);
	return pass(COUNT_TO_KERNEL_PIPELINED);
}

/* What the client sends behind its query when the reply has left, but has not come to it. The kernel's TCP can have the
 * connection only when the client has the whole reply; what it said until then is in the ring. */
static __always_inline enum fate keep_ahead(struct verdict *v, struct flow *flow)
{
	__u32 length = v->w->in.length, before = flow->ahead_length, old = flow->ahead, position;
	struct ring_head *head = ring_top();
	__u8 *bytes = ring_bytes();

	if (v->w->in.seq == flow->client_next) {
		/* The same again, or the first. */
		if (before > length)
			before = length = 0;
		else
			before = 0;
	}
	if (!length) {
		flow_note(v, flow);
		return drop(COUNT_KEPT);
	}
	if (v->w->in.flags & FLAG_FIN || length > QUERY_MAX || before > AHEAD_MAX - QUERY_MAX || !head || !bytes)
		return FATE_STRANGE;
	if (!source_allows(v->s, v->w->in.who.client, v->now, RATE_QUERY))
		return drop(COUNT_QUERY_LIMITED);
	position = ring_take(head, before + length);
	if (before && (bpf_probe_read_kernel(bytes + ring_offset(position), before, bytes + ring_offset(old)) ||
		       !ring_holds(head, old)))
		return FATE_STRANGE;
	if (bpf_probe_read_kernel(bytes + ring_offset(position) + before, length, scratch_query(v->w)))
		return FATE_STRANGE;
	flow->ahead = position;
	flow->ahead_length = before + length;
	flow_note(v, flow);
	return drop(COUNT_KEPT);
}

/* "Data on an entry": data, FIN or both, but for what begins a new connection. */
static __always_inline enum fate on_data(struct verdict *v)
{
	struct flow *flow = v->flow;
	int first = v->w->in.seq == flow->query_seq, next = v->w->in.seq == flow->client_next;
	int at_end = v->w->in.ack == flow_end(flow);

	if (first && v->w->in.length == flow->query_length && v->w->in.length && v->w->in.length <= QUERY_MAX &&
	    misses_some(v, flow) && query_read(scratch_query(v->w), v->w->in.length, &v->w->query) &&
	    v->w->query.id == flow->dns_id) {
		flow_note(v, flow);
		flow_missed(v, flow, v->w->in.ack);
		flow->flags |= FLOW_AGAIN;
		count(COUNT_QUERY_AGAIN);
		return FATE_DATAGRAM;
	}
	switch (flow->state) {
	case FLOW_QUERY:
		if (first && v->w->in.length) {
			/* Linux puts what it sends again and what comes behind it into one segment. */
			if (v->w->in.length != flow->query_length)
				return leave_to_kernel(v, flow);
			/* The datagram, or the reply, may be lost: the server is asked again. Only a first reply counts. */
			if (v->w->in.length > QUERY_MAX ||
			    !query_read(scratch_query(v->w), v->w->in.length, &v->w->query) ||
			    v->w->query.id != flow->dns_id)
				break;
			flow_note(v, flow);
			if (v->w->in.flags & FLAG_FIN)
				flow_note_fin(flow);
			count(COUNT_QUERY_AGAIN);
			return FATE_DATAGRAM;
		}
		/* Nothing comes behind a FIN. */
		if (!next || flow->flags & FLOW_CLIENT_FIN)
			break;
		/* Pipelined: we hold one query at a time. */
		if (v->w->in.length) {
			struct ring_head *head = ring_top();

			if (!head || !ring_holds(head, flow->stored))
				break;
			return leave_to_kernel(v, flow);
		}
		/* Half-close: the reply acknowledges it and carries our FIN. */
		flow_note(v, flow);
		flow_note_fin(flow);
		return drop(COUNT_ACK);

	case FLOW_REPLIED:
	case FLOW_IDLE:
		if (first && v->w->in.length)
			return on_reply_missed(v, flow);
		/* Behind what was kept: tc ingress puts that before it. */
		if (flow->ahead_length && at_end && v->w->in.seq == flow->client_next + flow->ahead_length)
			return pass(COUNT_TO_KERNEL_PIPELINED);
		if (flow->state == FLOW_REPLIED && v->w->in.ack - flow->server_seq < flow->reply_length && v->w->in.length &&
		    (next || v->w->in.seq == flow->client_next + flow->ahead_length))
			return keep_ahead(v, flow);
		/* The client is done, before it has the reply. Its FIN is acknowledged when it has: until then it is to ask again. */
		if (flow->state == FLOW_REPLIED && v->w->in.ack - flow->server_seq < flow->reply_length && next) {
			flow->state = FLOW_CLOSING;
			flow->flags |= FLOW_QUERY_UNACKED;
			flow_note(v, flow);
			flow_note_fin(flow);
			count(COUNT_ACK);
			answer_from(v, flow, flow_end(flow), flow->query_seq);
			v->w->answer.flags |= FLAG_FIN;
			return FATE_ANSWER;
		}
		/* A second query: the connection is one that stays, and tc ingress gives it to the kernel. */
		if (next && at_end && v->w->in.length)
			return pass(COUNT_TO_KERNEL_SECOND);
		/* The client is done, and so are we. The entry stays until it has our FIN. */
		if (next && at_end) {
			flow->state = FLOW_CLOSING;
			/* Who acknowledges our FIN has the acknowledgement that comes with it. */
			flow->flags &= ~FLOW_QUERY_UNACKED;
			flow_note(v, flow);
			flow_note_fin(flow);
			count(COUNT_ACK);
			answer_ack(v, flow);
			v->w->answer.flags |= FLAG_FIN;
			return FATE_ANSWER;
		}
		break;

	case FLOW_CLOSING:
		if (v->w->in.length) {
			if (first)
				return on_reply_missed(v, flow);
			/* A second query, behind our FIN: nobody will answer it. */
			if (next && (at_end || v->w->in.ack == flow_end(flow) + 1)) {
				flow_remove(v);
				count(COUNT_CLOSED);
				return answer_reset(v);
			}
			break;
		}
		/* The client's FIN, or that again as our ACK of it was lost. */
		if (flow->flags & FLOW_CLIENT_FIN ? v->w->in.seq != flow->client_next - 1 : !next)
			break;
		/* Half-closed, and it misses some of the reply: with our ACK it would ask for that no more. */
		if (!at_end && v->w->in.ack != flow_end(flow) + 1)
			break;
		flow_note(v, flow);
		flow_note_fin(flow);
		answer_ack(v, flow);
		if (v->w->in.ack == flow_end(flow) + 1) {
			flow_remove(v);
			count(COUNT_CLOSED);
		} else {
			if (at_end)
				v->w->answer.flags |= FLAG_FIN;
			count(COUNT_ACK);
		}
		return FATE_ANSWER;

	case FLOW_SLOW:
	case FLOW_KERNEL:
		/* The query again, or what comes behind it: the kernel may have its socket at any moment, and until then
		 * tc ingress knows better, which sees the segments in the same order. */
		if (v->w->in.ack == flow->server_seq && v->w->in.seq - flow->query_seq <= WINDOW_PLAIN)
			return pass(COUNT_KERNEL_HAS_IT);
		break;
	}
	return FATE_STRANGE;
}

/* "Acknowledgements": a pure ACK on an entry. */
static __always_inline enum fate on_ack(struct verdict *v)
{
	struct flow *flow = v->flow;
	__u32 offset = v->w->in.ack - flow->server_seq, length = flow->reply_length;
	int closing = flow->state == FLOW_CLOSING;
	int replied = closing || flow->state == FLOW_REPLIED || flow->state == FLOW_IDLE;
	int again = 0;

	if (flow->state == FLOW_SYN)
		return drop(COUNT_HANDSHAKE_ACK);
	if (flow_left(flow) || !seq_within(v->w->in.seq, flow->query_seq, flow->client_next + flow->ahead_length) || (replied && offset > length + 1))
		return FATE_STRANGE;
	/* The client has the reply: tc ingress makes what was kept of this. */
	if (replied && !closing && offset == length && flow->ahead_length &&
	    v->w->in.seq == flow->client_next + flow->ahead_length)
		return pass(COUNT_TO_KERNEL_PIPELINED);
	count(COUNT_ACK);
	flow_note(v, flow);
	if (!replied)
		return FATE_DROP;

	if (offset < length + closing) {
		/* The same ACK again and again: segments behind a lost one (RFC 5681 section 3.2). From then on each
		 * that acknowledges a part tells of the next hole (RFC 6582 section 3.2). */
		if (v->w->in.ack == flow->acked && flow->repeats < FLOW_RECOVERING) {
			again = ++flow->repeats == 3;
		} else if (offset > flow->acked - flow->server_seq) {
			flow->acked = v->w->in.ack;
			again = flow->repeats >= FLOW_RECOVERING;
			flow->repeats = 0;
		}
		if (again)
			flow->repeats = FLOW_RECOVERING;
	}
	if (offset == length && flow->state == FLOW_REPLIED)
		flow->state = FLOW_IDLE;
	if (offset == length + closing) {
		/* The whole reply is there: the client need not send its query again. */
		if (flow->flags & FLOW_QUERY_UNACKED)
			return answer_ack(v, flow);
		if (closing && flow->flags & FLOW_CLIENT_FIN) {
			flow_remove(v);
			return drop(COUNT_CLOSED);
		}
	}
	return again && answer_again(v, flow, offset) ? FATE_ANSWER : FATE_DROP;
}

/* A segment of a client to a server address and port, as far as we know of its connection. */
static __always_inline enum fate on_known(struct xdp_md *ctx, struct verdict *v)
{
	struct incoming *in = &v->w->in;
	struct flow *flow = v->flow;
	struct offer offer = {};
	int pure_ack, right = 0;

	if (in->flags & FLAG_SYN)
		return on_syn(v);
	if (in->flags & FLAG_RST)
		return on_rst(v);
	/* Every segment but a SYN or RST has ACK (RFC 9293 section 3.10.7.4). */
	if (!(in->flags & FLAG_ACK))
		return drop(COUNT_ODD_FLAGS);
	if (in->length && !payload_take(ctx, v->w))
		return drop(COUNT_BAD_CHECKSUM);
	pure_ack = !in->length && !(in->flags & FLAG_FIN);

	if (flow && pure_ack)
		return on_ack(v);
	if (flow && flow->state == FLOW_SYN && in->seq == flow->query_seq && in->ack == flow->server_seq) {
		offer = (struct offer){ .mss = flow->mss,
					.wscale = flow->client_wscale,
					.sack = !!(flow->flags & FLOW_SACK),
					.timestamps = !!(flow->flags & FLOW_TIMESTAMPS) };
		right = 1;
	} else if (!flow || flow->state == FLOW_SYN ||
		   /* What fits the entry fits a new connection too in one of 2^27 cases at most: no need to look. */
		   (in->seq != flow->query_seq && !(seq_within(in->seq, flow->query_seq, flow->client_next) &&
						    seq_within(in->ack, flow->server_seq, flow_end(flow) + 1)))) {
		in->who.client_isn = bpf_htonl(in->seq - 1);
		right = cookie_check(v->s, &in->who, v->now, in->ack - 1, in->offer.timestamps, in->tsecr, &offer);
	}
	/* The handshake's third step says nothing that the query will not say too. */
	if (right && pure_ack)
		return drop(COUNT_HANDSHAKE_ACK);
	if (right)
		return on_first_data(v, &offer);
	if (flow)
		return on_data(v);
	return FATE_STRANGE;
}

static __always_inline enum fate on_segment(struct xdp_md *ctx, struct verdict *v)
{
	struct incoming *in = &v->w->in;
	enum fate fate = on_known(ctx, v);

	if (fate != FATE_STRANGE)
		return fate;
	/* Also with an entry: a late copy of the first query makes one after the kernel took the connection over. */
	if (kernel_has(ctx, in))
		return pass(COUNT_KERNEL_HAS_IT);
	if (v->flow && v->flow->state != FLOW_KERNEL)
		return drop(COUNT_STRANGE);
	if (!in->length && !(in->flags & FLAG_FIN))
		return drop(COUNT_UNKNOWN_ACK);
	count(in->length ? COUNT_UNKNOWN_DATA : COUNT_UNKNOWN_FIN);
	/* Of a new connection, perhaps, whose first data was lost or overtaken. */
	if (!in->offer.timestamps || !(in->tsecr & COOKIE_HEARD))
		return FATE_DROP;
	/* Of a connection that is over. */
	return answer_reset(v);
}

/* "Too long for the path": an ICMP message, of a router most likely. */
static __always_inline enum fate on_icmp(struct xdp_md *ctx, struct verdict *v)
{
	struct incoming *in = &v->w->in;
	__u32 mtu = too_big_read(ctx);
	struct flow *flow;

	forget();
	/* What is not about a segment of ours is the kernel's, and so is what tells us nothing new. */
	if (!mtu || in->who.server_port != bpf_htons(v->s->port) ||
	    !flow_key_of(&v->w->key, in->who.client, in->who.client_port, in->who.server))
		return FATE_PASS;
	flow = flow_find(&v->w->key);
	if (!flow || (flow->state != FLOW_REPLIED && flow->state != FLOW_CLOSING) ||
	    in->seq - flow->acked >= flow_end(flow) - flow->acked ||
	    !flow_shorten(flow, our_mss(v), mtu - (in->ipv6 ? HEADERS6 : HEADERS4)))
		return FATE_PASS;
	count(COUNT_PATH_MTU);
	path_learn(in->who.client, mtu, v->now);
	flow->repeats = FLOW_RECOVERING;
	flow_seen(v, flow);
	/* All that was as long is lost: from the first on that is missing, each acknowledgement brings the next. */
	return answer_again(v, flow, flow->acked - flow->server_seq) ? FATE_ANSWER : FATE_PASS;
}

/* What parse_frame left of the options. */
static __always_inline void options_rest(struct xdp_md *ctx, struct incoming *in)
{
	struct option_bytes bytes = {};
	struct options options = { .offer = in->offer };
	__u32 length = in->header - sizeof(struct tcp_header);

	if (length - 1 >= OPTIONS_MAX ||
	    bpf_xdp_load_bytes(ctx, in->transport + sizeof(struct tcp_header), bytes.at, length))
		return;
	options_read(&bytes, length, &options);
	in->offer = options.offer;
	in->tsval = options.tsval;
	in->tsecr = options.tsecr;
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
	if (parsed == PARSED_SEGMENT) {
		if (!flow_key_of(&w->key, w->in.who.client, w->in.who.client_port, w->in.who.server))
			return XDP_PASS;
		if (w->in.unread)
			options_rest(ctx, &w->in);
	}
	w->answer.ack = 0;
	w->answer.window = 0;
	w->answer.words = 0;
	w->answer.payload = 0;
	v.now = bpf_ktime_get_boot_ns();
	if (parsed == PARSED_ICMP) {
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
	case FATE_STRANGE: /* never: on_segment knows better */
	case FATE_DATAGRAM:
		break;
	}
	return datagram_send(ctx, frame, w, query_raise_edns(scratch_query(w), w->in.length, &w->query, v.s->edns_size));
}

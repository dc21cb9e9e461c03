/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * XDP: segments of connections that have an entry. The tables "Data on an entry" and
 * "Acknowledgements" of PROTOCOL.md, row by row, in their order.
 */
#pragma once

#include "pmtu.h"
#include "verdict.h"

/* Where a segment stands in its connection, in the words of PROTOCOL.md. */

/* Data at `query_seq`. */
static __always_inline bool at_query(const struct verdict *v, const struct flow *flow)
{
	return v->w->in.length && v->w->in.seq == flow->query_seq;
}

/* `seq == client_next`. */
static __always_inline bool at_next(const struct verdict *v, const struct flow *flow)
{
	return v->w->in.seq == flow->client_next;
}

/* `seq == kept_end`. */
static __always_inline bool at_kept_end(const struct verdict *v, const struct flow *flow)
{
	return v->w->in.seq == flow->client_next + flow->ahead_length;
}

/* `server_seq <= ack < end`: the client lacks some of the reply. */
static __always_inline bool lacks_some(const struct verdict *v, const struct flow *flow)
{
	return v->w->in.ack - flow->server_seq < flow->reply_length;
}

/* `ack == end`. */
static __always_inline bool has_reply(const struct verdict *v, const struct flow *flow)
{
	return v->w->in.ack == flow_end(flow);
}

/* `ack == end + 1`. */
static __always_inline bool has_our_fin(const struct verdict *v, const struct flow *flow)
{
	return v->w->in.ack == flow_end(flow) + 1;
}

/* The client misses its reply from `place` on, and gets that part again. */
static __always_inline void flow_missed(struct verdict *v, struct flow *flow, __u32 place)
{
	/* RFC 4821 section 7.2, as in Linux (tcp_base_mss); RFC 8200 section 5. */
	__u32 least = v->w->in.ipv6 ? 1220 : 1024;

	if (flow->acked != place || flow->repeats < FLOW_RECOVERING)
		flow->repeats = FLOW_RECOVERING;
	else if (flow->repeats < FLOW_BLACK_HOLE)
		flow->repeats++;
	flow->acked = place;
	/* It may be too long for the path without any router saying so (RFC 2923 section 2.1). */
	if (flow->repeats == FLOW_BLACK_HOLE && flow_end(flow) - place > least && flow_shorten(flow, our_mss(v), least))
		count(COUNT_BLACK_HOLE);
}

/* Data at the query's place after the reply was sent: the client misses part of the reply, our
 * FIN, or our ACK. */
static __always_inline enum fate on_reply_missed(struct verdict *v, struct flow *flow)
{
	__u32 offset = v->w->in.ack - flow->server_seq, length = flow->reply_length;
	int closing = flow->state == FLOW_CLOSING;

	/* It misses only our ACK, which is held back for replies of several segments. */
	if (offset == length + closing) {
		if (!closing)
			flow->state = FLOW_IDLE;
		flow_note(v, flow);
		count(COUNT_ACK);
		return answer_ack(v, flow);
	}
	/* This reply was already acknowledged as a whole. */
	if (flow->state == FLOW_IDLE)
		return FATE_STRANGE;
	if (offset > length)
		offset = 0;
	flow_note(v, flow);
	flow_missed(v, flow, flow->server_seq + offset);
	if (answer_again(v, flow, offset))
		return FATE_ANSWER;
	/* Asking the server again could bring a different reply, and the client would get a
	 * mixture of both. */
	flow_remove(v);
	count(COUNT_RESEND_GONE);
	return answer_reset(v);
}

/* Whether the client misses part of a reply that the ring has. One packet of the client can
 * bring it only one segment, but one packet of the server can bring all of them. So the server
 * is asked again, unless that was already tried. */
static __always_inline bool misses_some(const struct verdict *v, const struct flow *flow)
{
	__u32 missing = flow_end(flow) - v->w->in.ack;
	struct ring_head *head = ring_top();

	return (flow->state == FLOW_REPLIED || flow->state == FLOW_CLOSING) &&
	       !(flow->flags & FLOW_AGAIN) && missing - 1 < flow->reply_length && head && ring_holds(head, flow->stored);
}

/* The kernel's TCP has to answer the query, because the server did not in time or because there
 * is more than one query. tc ingress then puts the stored first query in front of the second,
 * because it can give a packet any length. */
static __always_inline enum fate leave_to_kernel(struct verdict *v, struct flow *flow, enum counter why)
{
	if (v->w->in.ack != flow->server_seq || !flow_leave_query(flow, FLOW_SLOW, FLOW_SLOW, 0))
		return FATE_STRANGE;
	flow_note(v, flow);
	return pass(why);
}

/* Keeps what the client sends behind its query after the reply has left but before it arrived.
 * The kernel's TCP can have the connection only when the client has the whole reply, so the ring
 * keeps the data until then. */
static __always_inline enum fate keep_ahead(struct verdict *v, struct flow *flow)
{
	__u32 length = v->w->in.length, before = flow->ahead_length, old = flow->ahead, position;
	struct ring_head *head = ring_top();
	__u8 *bytes = ring_bytes();

	if (at_next(v, flow)) {
		/* This is the first data to be kept, or the same data again. */
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

/* Whether the segment is the client's next query, sent after it received the whole reply to the
 * one before. */
static __always_inline bool is_later(const struct verdict *v, const struct flow *flow)
{
	return v->s->later_queries && v->w->in.length && (flow->state == FLOW_REPLIED || flow->state == FLOW_IDLE) &&
	       at_next(v, flow) && has_reply(v, flow);
}

/* Handles a repeated query whose reply the client has: it is a late copy, or our acknowledgement
 * was lost. */
static __always_inline enum fate on_earlier(struct verdict *v, const struct flow *flow)
{
	count(COUNT_QUERY_EARLIER);
	return answer_from(v, flow, flow_end(flow) + (flow->state == FLOW_CLOSING), flow->query_seq);
}

/* Whether the segment is a keep-alive probe of this connection: it asks for an acknowledgement of
 * what was received before. Behind a FIN, an ACK with this number is only late. */
static __always_inline bool flow_probed(const struct verdict *v, const struct flow *flow)
{
	const struct incoming *in = &v->w->in;

	return may_probe(in) && in->seq == flow->client_next - 1 && !(flow->flags & FLOW_CLIENT_FIN) && flow->state != FLOW_SYN &&
	       flow->state != FLOW_OPEN && flow->state != FLOW_KERNEL &&
	       in->ack - flow->server_seq <= flow->reply_length + (flow->state == FLOW_CLOSING);
}

/* Answers a keep-alive probe. This is no sign that the client wants anything, so the entry does
 * not last longer for it. */
static __always_inline enum fate on_probe(struct verdict *v, struct flow *flow)
{
	__u32 offset = v->w->in.ack - flow->server_seq, length = flow->reply_length;
	int closing = flow->state == FLOW_CLOSING;

	count(COUNT_PROBE);
	flow_note_fields(v, flow);
	/* It waits for the reply, or lacks some of it: it has to go on asking. */
	if (flow->state == FLOW_QUERY || flow->state == FLOW_SLOW || offset < length)
		return answer_from(v, flow, flow_end(flow) + closing, flow_acknowledged(flow));
	if (flow->state == FLOW_REPLIED)
		flow->state = FLOW_IDLE;
	answer_ack(v, flow);
	if (closing && offset == length)
		v->w->answer.flags |= FLAG_FIN; /* ours was lost */
	return FATE_ANSWER;
}

/* Whether the segment is the entry's query: the same length, a whole query of the same ID. */
static __always_inline bool same_query(const struct verdict *v, const struct flow *flow)
{
	__u32 length = v->w->in.length;

	return length == flow->query_length && length && length <= QUERY_MAX &&
	       query_read(scratch_query(v->w), length, &v->w->query) && v->w->query.id == flow->dns_id;
}

/* The server gets the query again, because one datagram of it can bring all that the client lacks. */
static __always_inline enum fate ask_again(struct verdict *v, struct flow *flow)
{
	flow_note(v, flow);
	flow_missed(v, flow, v->w->in.ack);
	flow_set(flow, FLOW_AGAIN);
	count(COUNT_QUERY_AGAIN);
	return FATE_DATAGRAM;
}

/* QUERY: data at the query's place. */
static __always_inline enum fate on_query_again(struct verdict *v, struct flow *flow)
{
	/* Linux joins repeated data and the data behind it in one segment. */
	if (v->w->in.length != flow->query_length)
		return leave_to_kernel(v, flow, COUNT_TO_KERNEL_PIPELINED);
	if (!same_query(v, flow))
		return FATE_STRANGE;
	/* A server may leave a query over UDP unanswered, as its rate limit does, or the datagram
	 * may be lost. A client that has proven its address gets an answer over TCP. */
	if ((__u32)(v->now / 1000) - flow->asked_us >= v->s->patience_us) {
		source_met_silence(v->w->in.who.client, v->now);
		return leave_to_kernel(v, flow, COUNT_TO_KERNEL_SILENT);
	}
	flow_note(v, flow);
	if (v->w->in.flags & FLAG_FIN)
		flow_note_fin(flow);
	count(COUNT_QUERY_WAITS);
	/* Our ACK of this query, or of an earlier one in the same segment, was lost. */
	if (!(flow->flags & FLOW_AT_ONCE) && !v->w->in.trimmed)
		return FATE_DROP;
	return answer_from(v, flow, flow->server_seq, flow_acknowledged(flow));
}

/* REPLIED: the client is done before it has the reply. Its FIN is not acknowledged until then, so
 * that it goes on asking. */
static __always_inline enum fate on_early_fin(struct verdict *v, struct flow *flow)
{
	flow->state = FLOW_CLOSING;
	if (!(flow->flags & FLOW_AT_ONCE))
		flow_set(flow, FLOW_QUERY_UNACKED);
	flow_note(v, flow);
	flow_note_fin(flow);
	count(COUNT_ACK);
	answer_from(v, flow, flow_end(flow), flow_acknowledged(flow));
	v->w->answer.flags |= FLAG_FIN;
	return FATE_ANSWER;
}

/* CLOSING: the client's FIN, the first or a copy. The client has the reply, and perhaps our FIN. */
static __always_inline enum fate on_fin(struct verdict *v, struct flow *flow)
{
	flow_note(v, flow);
	flow_note_fin(flow);
	answer_ack(v, flow);
	if (has_our_fin(v, flow)) {
		flow_remove(v);
		count(COUNT_CLOSED);
	} else {
		v->w->answer.flags |= FLAG_FIN;
		count(COUNT_ACK);
	}
	return FATE_ANSWER;
}

static __always_inline enum fate on_data_in_query(struct verdict *v, struct flow *flow)
{
	struct ring_head *head;

	if (at_query(v, flow))
		return on_query_again(v, flow);
	/* Nothing comes behind a FIN. */
	if (!at_next(v, flow) || flow->flags & FLOW_CLIENT_FIN)
		return FATE_STRANGE;
	/* Half-close: the reply acknowledges it and carries our FIN. */
	if (!v->w->in.length) {
		flow_note(v, flow);
		flow_note_fin(flow);
		return drop(COUNT_ACK);
	}
	/* Pipelined: we hold one query at a time. */
	head = ring_top();
	if (!head || !ring_holds(head, flow->stored))
		return FATE_STRANGE;
	return leave_to_kernel(v, flow, COUNT_TO_KERNEL_PIPELINED);
}

/* REPLIED and IDLE. */
static __always_inline enum fate on_data_in_replied(struct verdict *v, struct flow *flow)
{
	if (at_query(v, flow))
		return on_reply_missed(v, flow);
	/* It follows the kept data, which tc ingress puts in front of it. */
	if (flow->ahead_length && has_reply(v, flow) && at_kept_end(v, flow))
		return pass(COUNT_TO_KERNEL_PIPELINED);
	if (flow->state == FLOW_REPLIED && lacks_some(v, flow)) {
		if (v->w->in.length && (at_next(v, flow) || at_kept_end(v, flow)))
			return keep_ahead(v, flow);
		return at_next(v, flow) ? on_early_fin(v, flow) : FATE_STRANGE;
	}
	if (!at_next(v, flow) || !has_reply(v, flow))
		return FATE_STRANGE;
	/* A second query that is not served here: tc ingress gives the connection to the kernel. */
	if (v->w->in.length)
		return pass(COUNT_TO_KERNEL_SECOND);
	/* The client is done, and so are we. The entry stays until the client has our FIN. Whoever
	 * acknowledges that also has the acknowledgement that came with it. */
	flow->state = FLOW_CLOSING;
	flow_clear(flow, FLOW_QUERY_UNACKED);
	return on_fin(v, flow);
}

static __always_inline enum fate on_data_in_closing(struct verdict *v, struct flow *flow)
{
	bool complete = has_reply(v, flow) || has_our_fin(v, flow);

	if (at_query(v, flow))
		return on_reply_missed(v, flow);
	/* A second query behind our FIN: nobody will answer it. */
	if (v->w->in.length) {
		if (!at_next(v, flow) || !complete)
			return FATE_STRANGE;
		flow_remove(v);
		count(COUNT_CLOSED);
		return answer_reset(v);
	}
	/* The client's FIN, or a copy of it because our ACK was lost. */
	if (v->w->in.seq != flow->client_next - !!(flow->flags & FLOW_CLIENT_FIN))
		return FATE_STRANGE;
	if (complete)
		return on_fin(v, flow);
	/* The client has half-closed and misses part of the reply. Our ACK would make it stop asking.
	 * If its query was acknowledged at once, it can only ask with its FIN. */
	if (!(flow->flags & FLOW_AT_ONCE) || !lacks_some(v, flow))
		return FATE_STRANGE;
	flow_note_fin(flow);
	return on_reply_missed(v, flow);
}

/* SLOW and KERNEL: the query again, or what follows it. The kernel may get its socket at any moment.
 * Until then tc ingress decides, because it sees the segments in the order in which the kernel does. */
static __always_inline enum fate on_data_for_kernel(const struct verdict *v, const struct flow *flow)
{
	if (v->w->in.ack == flow->server_seq && v->w->in.seq - flow->query_seq <= WINDOW_PLAIN)
		return pass(COUNT_KERNEL_HAS_IT);
	return FATE_STRANGE;
}

/* "Data on an entry": data, FIN or both, except what begins a new connection. */
static __always_inline enum fate on_data(struct verdict *v)
{
	struct flow *flow = v->flow;

	if (at_query(v, flow) && misses_some(v, flow) && same_query(v, flow) &&
	    source_allows(v->s, v->w->in.who.client, v->now, RATE_QUERY))
		return ask_again(v, flow);
	switch (flow->state) {
	case FLOW_QUERY:
		return on_data_in_query(v, flow);
	case FLOW_REPLIED:
	case FLOW_IDLE:
		return on_data_in_replied(v, flow);
	case FLOW_CLOSING:
		return on_data_in_closing(v, flow);
	case FLOW_SLOW:
	case FLOW_KERNEL:
		return on_data_for_kernel(v, flow);
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
		return v->w->in.seq == flow->query_seq ? drop(COUNT_HANDSHAKE_ACK) : FATE_STRANGE;
	if (flow_left(flow) || !seq_within(v->w->in.seq, flow->query_seq, flow->client_next + flow->ahead_length) ||
	    (replied && offset > length + 1))
		return FATE_STRANGE;
	/* The client has the reply: tc ingress hands over what was kept. */
	if (replied && !closing && offset == length && flow->ahead_length && at_kept_end(v, flow))
		return pass(COUNT_TO_KERNEL_PIPELINED);
	count(COUNT_ACK);
	flow_note(v, flow);
	if (!replied)
		return FATE_DROP;

	if (offset < length + closing) {
		/* Repeated ACKs come from segments behind a lost one (RFC 5681 section 3.2).
		 * After that, each ACK of a part shows the next hole (RFC 6582 section 3.2). */
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
		/* The client has the whole reply and need not send its query again. */
		if (flow->flags & FLOW_QUERY_UNACKED)
			return answer_ack(v, flow);
		if (closing && flow->flags & FLOW_CLIENT_FIN) {
			flow_remove(v);
			return drop(COUNT_CLOSED);
		}
	}
	return again && answer_again(v, flow, offset) ? FATE_ANSWER : FATE_DROP;
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc ingress: gives the listener what XDP let pass and no socket has, as if the listener had
 * answered the SYN itself.
 *
 * bpf_sk_assign_tcp_reqsk (since Linux 6.9, net/core/filter.c) makes the same request that the
 * stack would make from a SYN cookie of its own. The stack takes the initial sequence numbers from
 * the segment (net/ipv4/syncookies.c). So this works in the middle of a stream, and the kernel
 * continues from our timestamp, which the segment echoes.
 */
#pragma once

#include "acknowledge.h"
#include "fragment.h"
#include "resend.h"
#include "share.h"
#include "split.h"
#include "track.h"
#include "adopt_read.h"
#include "adopt_join.h"

/* include/net/tcp.h, Linux 6.9 and later. */
struct bpf_tcp_req_attrs {
	__u32 rcv_tsval;
	__u32 rcv_tsecr;
	__u16 mss;
	__u8 rcv_wscale; /* ours */
	__u8 snd_wscale; /* the client's */
	__u8 ecn_ok;
	__u8 wscale_ok;
	__u8 sack_ok;
	__u8 tstamp_ok;
	__u8 usec_ts_ok;
	__u8 reserved[3];
};

/* A kernel type, with the fields of a listener that say how many connections its server has not
 * accepted yet, and how many may wait (the backlog of listen(2)). */
struct sock {
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog;
} __attribute__((preserve_access_index));

extern int bpf_sk_assign_tcp_reqsk(struct __sk_buff *skb, struct sock *listener, struct bpf_tcp_req_attrs *attributes,
				   int attributes__sz) __ksym __weak;

/* The smallest MSS that the kernel takes here; it raises smaller ones to these. RFC 9293 (3.7.1)
 * and RFC 8200 (5) require every path to carry them. */
#define ADOPT_MSS4 536
#define ADOPT_MSS6 1220

/* What happens to a segment that has no socket. */
enum adoption {
	ADOPT_NONE, /* nothing for the listener: the stack answers or drops it */
	ADOPT_LATE, /* the listener must first get earlier data, which the client sends again */
	ADOPT_IT,
	ADOPT_JOINED, /* with the stored query in front */
	ADOPT_AHEAD,  /* with the data in front that was kept until the client had the reply */
	ADOPT_OPEN,   /* with all unanswered queries in front, and the kept data behind them */
};

/* Decides what happens to this segment, and reads what was agreed on with its client. */
static __always_inline enum adoption adopt_agreed(const struct incoming *in, const struct options *options,
						  const struct flow *flow, struct offer *agreed)
{
	enum adoption adoption = ADOPT_NONE;

	if (flow) {
		bool next = in->seq == flow->client_next;

		if ((flow->state == FLOW_REPLIED || flow->state == FLOW_IDLE) && flow->ahead_length &&
		    in->seq == flow->client_next + flow->ahead_length && in->ack == flow_end(flow)) {
			adoption = ADOPT_AHEAD;
		} else if (flow->state == FLOW_OPEN) {
			adoption = ADOPT_OPEN;
		} else if (!in->length) {
			adoption = ADOPT_NONE;
		} else if (flow_left(flow) && in->ack == flow->server_seq) {
			if (in->seq == flow->query_seq)
				adoption = ADOPT_IT;
			else if (next && !(flow->flags & FLOW_CLIENT_FIN))
				adoption = ADOPT_JOINED;
		} else if ((flow->state == FLOW_REPLIED || flow->state == FLOW_IDLE) && next && in->ack == flow_end(flow)) {
			adoption = ADOPT_IT;
		}
		if (adoption != ADOPT_NONE) {
			agreed->mss = flow->mss;
			agreed->timestamps = !!(flow->flags & FLOW_TIMESTAMPS);
			agreed->wscale = flow->client_wscale;
			agreed->sack = !!(flow->flags & FLOW_SACK);
			return adoption;
		}
	}
	if (in->length && !(flow && in->seq == flow->query_seq) && adopt_cookie(in, options, agreed))
		return ADOPT_IT;
	return flow && flow->state == FLOW_SLOW ? ADOPT_LATE : ADOPT_NONE;
}

/* Updates the entry of a connection that the kernel gets. If we sent no reply, the entry stays,
 * to catch the server's. */
static __always_inline void adopt_entry(struct flow *flow, const struct flow_key *key, bool from_query)
{
	if (from_query) {
		flow->state = FLOW_KERNEL;
		flow->seen_ms = bpf_ktime_get_boot_ns() / 1000000;
	} else {
		bpf_map_delete_elem(&flows, key);
	}
}

/* Whether the kernel can take a connection over. With tcp_syncookies = 0 its TCP does not look at
 * what bpf_sk_assign_tcp_reqsk gave it, and answers with RST (kernel 6.18, net/ipv4/syncookies.c
 * cookie_v4_check). With tcp_window_scaling = 0 it refuses a connection whose client scales its
 * window. Without the scale it would take that window for a few bytes. */
static __always_inline bool adopt_possible(struct __sk_buff *ctx, const struct offer *agreed)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	return skb->dev->nd_net.net->ipv4.sysctl_tcp_syncookies &&
	       (agreed->wscale == WSCALE_NONE || skb->dev->nd_net.net->ipv4.sysctl_tcp_window_scaling);
}

/* Leaves the connection to the user side, which closes it with a FIN. */
static __noinline int adopt_refuse(const struct incoming *in, const struct options *options, const struct offer *agreed,
				   const struct flow_key *key)
{
	struct flow fresh = {
		.seen_ms = bpf_ktime_get_boot_ns() / 1000000,
		.query_seq = in->seq,
		.client_next = in->seq + in->length,
		.server_seq = in->ack,
		.acked = in->ack,
		.tsval = options->tsecr | COOKIE_HEARD,
		.client_tsval = options->tsval,
		.mss = agreed->mss,
		.state = FLOW_SLOW,
		.flags = (agreed->timestamps ? FLOW_TIMESTAMPS : 0) | (agreed->sack ? FLOW_SACK : 0),
		.client_wscale = agreed->wscale,
	};

	bpf_map_update_elem(&flows, key, &fresh, BPF_NOEXIST);
	count(COUNT_ADOPT_FAILED);
	return TC_ACT_SHOT;
}

/* Gives the segment to the listener. If tcp_sack or tcp_timestamps is switched off, the kernel
 * refuses a connection that has them. It then gets the connection without them, which is better
 * than a RST: selective acknowledgements are optional, and Linux accepts segments without
 * timestamps (other systems may drop them, RFC 7323 section 3.2). */
static __always_inline bool adopt_assign(struct __sk_buff *ctx, struct sock *listener, struct bpf_tcp_req_attrs *attributes)
{
	if (!bpf_sk_assign_tcp_reqsk(ctx, listener, attributes, sizeof(*attributes)))
		return true;
	if (!attributes->sack_ok && !attributes->tstamp_ok)
		return false;
	attributes->sack_ok = 0;
	if (!bpf_sk_assign_tcp_reqsk(ctx, listener, attributes, sizeof(*attributes)))
		return true;
	attributes->tstamp_ok = 0;
	return !bpf_sk_assign_tcp_reqsk(ctx, listener, attributes, sizeof(*attributes));
}

/* Whether the segment has to wait until the server accepts connections: the kernel would drop it
 * (sk_acceptq_is_full). A source with many connections leaves half of that queue to others. */
static __always_inline bool adopt_waits(struct __sk_buff *ctx, const struct sock *listener, const struct flow_key *key)
{
	__u32 queued = listener->sk_ack_backlog, room = listener->sk_max_ack_backlog;

	return queued > room || (queued > room / 2 && share_kernel_full(ctx, key));
}

/* Room for reading the segment, because the stack is too small. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct incoming);
} adopting SEC(".maps");

static __always_inline struct incoming *adopting_own(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&adopting, &zero);
}

/* Long: a sequence of reasons to leave the segment to the kernel. The listener is held from the
 * lookup to the end. */
SEC("tcx/ingress")
int gateway_adopt(struct __sk_buff *ctx)
{
	struct bpf_tcp_req_attrs attributes = {};
	struct bpf_sock_tuple tuple = {};
	struct options options = {};
	struct incoming *in = adopting_own();
	struct offer agreed = {};
	struct flow_key key = {};
	struct bpf_sock *found;
	struct sock *listener;
	struct settings *s = settings_now();
	struct unsent unsent;
	enum adoption adoption;
	int parsed, verdict = TC_ACT_UNSPEC;
	__u32 index = ctx->tc_index;
	bool shown = index == SHOWN_INDEX || index == FRAGMENT_READY, fragment;
	struct flow *flow;
	__u32 before = 0, place = 0; /* what goes in front of the segment, and its first sequence number */
	__u32 trimmed, first;
	__u16 least;

	if (!in || socket_marked(ctx))
		return TC_ACT_UNSPEC;
	__builtin_memset(in, 0, sizeof(*in));
	if (unsent_find(ctx, &unsent))
		return unsent.mark == UNSENT_MARK ? unsent_send(ctx, &unsent) :
		       ctx->tc_index == SPLIT_INDEX ? TC_ACT_UNSPEC : split_send(ctx, &unsent);
	if (index == FRAGMENT_HELD)
		return fragment_again(ctx);
	if (shown || index == FRAGMENT_LAST)
		ctx->tc_index = 0;
	if (index == FRAGMENT_LAST)
		return TC_ACT_UNSPEC;
	if (!s || !s->active)
		return TC_ACT_UNSPEC;
	if (s->at_once) {
		verdict = acknowledge(ctx);
		if (verdict != TC_ACT_UNSPEC)
			return verdict;
	}
	if (!bpf_sk_assign_tcp_reqsk)
		return TC_ACT_UNSPEC;
	parsed = adopt_read(ctx, in);
	if (parsed == PARSED_MALFORMED || parsed == PARSED_MALFORMED_TCP) {
		/* Its headers may merely lie outside the linear part. */
		if (bpf_skb_pull_data(ctx, ctx->len < 256 ? ctx->len : 256))
			return TC_ACT_UNSPEC;
		parsed = adopt_read(ctx, in);
	}
	fragment = parsed == PARSED_FRAGMENT;
	if ((parsed != PARSED_SEGMENT && !fragment) || (in->flags & (FLAG_ACK | FLAG_SYN | FLAG_RST)) != FLAG_ACK)
		return TC_ACT_UNSPEC;
	if (fragment) {
		in->flags = FLAG_ACK; /* a FIN comes with the last fragment's data */
		if (!in->length)
			in->length = 1; /* the next fragment has data */
	}

	/* The socket comes first: if the kernel has the connection, nothing else matters. */
	if (in->ipv6) {
		__builtin_memcpy(tuple.ipv6.saddr, in->who.client, 16);
		__builtin_memcpy(tuple.ipv6.daddr, in->who.server, 16);
		tuple.ipv6.sport = in->who.client_port;
		tuple.ipv6.dport = in->who.server_port;
		found = bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
		least = ADOPT_MSS6;
	} else {
		tuple.ipv4.saddr = in->who.client[3];
		tuple.ipv4.daddr = in->who.server[3];
		tuple.ipv4.sport = in->who.client_port;
		tuple.ipv4.dport = in->who.server_port;
		found = bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
		least = ADOPT_MSS4;
	}
	if (found && found->state != BPF_TCP_LISTEN)
		goto release; /* the kernel has the connection */

	if (!flow_key_of(&key, in->who.client, in->who.client_port, in->who.server))
		goto release;
	flow = flow_find(&key);
	if (flow) {
		in->trimmed = flow_received(flow, in->seq, in->ack, in->length, in->flags & FLAG_FIN);
		in->seq += in->trimmed;
		in->length -= in->trimmed;
	}
	/* A bare ACK matters only if something was kept: any other data has brought the connection here
	 * before it. A FIN always matters, because it may overtake that data. */
	if (!in->length && !(in->flags & FLAG_FIN) && !(flow && (flow->ahead_length || flow->state == FLOW_OPEN)))
		goto release;
	adopt_options(ctx, in, &options);
	adoption = adopt_agreed(in, &options, flow, &agreed);
	/* The kernel would put the fragments together and answer with RST. */
	if (fragment && adoption == ADOPT_NONE && flow && flow->state != FLOW_KERNEL)
		adoption = ADOPT_LATE;
	if (adoption == ADOPT_NONE)
		goto release;
	if (fragment)
		in->length = in->trimmed = 0; /* fragment_cut */
	if (flow && adoption == ADOPT_OPEN) {
		before = adopt_open_ready(&key, in->ack);
		place = flow->client_next + flow->ahead_length;
		/* Repeated data is in the ring or is already answered. What follows it may be new. */
		trimmed = place - in->seq;
		if (trimmed > in->length || before + in->length - trimmed > JOINED_MAX) {
			/* The client sends again what is too much for one packet. */
			if (in->flags & FLAG_FIN)
				before = 0;
			trimmed = in->length;
		}
		in->trimmed = trimmed;
		in->length -= trimmed;
		if (!before)
			adoption = ADOPT_LATE;
		place -= before;
	}
	if (adoption == ADOPT_LATE) {
		count(COUNT_STRANGE);
		verdict = TC_ACT_SHOT;
		goto release;
	}
	if (!adopt_possible(ctx, &agreed)) {
		verdict = adopt_refuse(in, &options, &agreed, &key);
		goto release;
	}
	listener = found ? (struct sock *)bpf_skc_to_tcp_sock(found) : 0;
	if (listener && adopt_waits(ctx, listener, &key)) {
		count(COUNT_ADOPT_LIMITED);
		verdict = TC_ACT_SHOT; /* the client sends it again */
		goto release;
	}
	first = in->seq;
	if (flow && adoption == ADOPT_JOINED)
		first = flow->query_seq;
	else if (flow && adoption == ADOPT_AHEAD)
		first = flow->client_next;
	else if (adoption == ADOPT_OPEN)
		first = place;
	if (fragment) {
		if (!found) {
			count(COUNT_ADOPT_FAILED);
			goto release;
		}
		if (!shown) {
			verdict = fragment_begin(ctx, in, &agreed, first);
			goto release;
		}
		if (!fragment_follows(ctx) || !fragment_cut(ctx, in)) {
			count(COUNT_XDP_ERROR);
			verdict = TC_ACT_SHOT;
			goto release;
		}
	}
	if (found && s->track && !shown) {
		verdict = TC_ACT_SHOT;
		if (track_show(ctx, in, &agreed, first)) {
			ctx->tc_index = SHOWN_INDEX;
			verdict = bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
		} else {
			count(COUNT_XDP_ERROR);
		}
		goto release;
	}
	if (flow && adoption == ADOPT_OPEN) {
		__u32 position = 0;
		int gathered = adopt_open_gather(&key, in->ack, before, &position);

		verdict = TC_ACT_SHOT;
		/* The server's reply was sent at this very moment. */
		if (gathered == ADOPT_GATHER_LATE) {
			count(COUNT_STRANGE);
			goto release;
		}
		if (!gathered || !adopt_join(ctx, in, position, before, place)) {
			/* The ring no longer has its queries. The client's next segment is
			 * answered with RST. */
			bpf_map_delete_elem(&opens, &key);
			bpf_map_delete_elem(&flows, &key);
			count(COUNT_XDP_ERROR);
			goto release;
		}
		verdict = TC_ACT_UNSPEC;
	} else if (flow) {
		bool from_query = flow_left(flow) && in->ack == flow->server_seq;

		if ((adoption == ADOPT_JOINED && !adopt_join(ctx, in, flow->stored, flow->query_length, flow->query_seq)) ||
		    (adoption == ADOPT_AHEAD && !adopt_join(ctx, in, flow->ahead, flow->ahead_length, flow->client_next)) ||
		    (adoption == ADOPT_IT && in->trimmed && !adopt_join(ctx, in, 0, 0, in->seq))) {
			count(COUNT_XDP_ERROR);
			verdict = TC_ACT_SHOT;
			goto release;
		}
		adopt_entry(flow, &key, from_query);
	}
	attributes.mss = agreed.mss < least ? least : agreed.mss;
	if (agreed.timestamps && options.offer.timestamps) {
		attributes.tstamp_ok = 1;
		attributes.rcv_tsval = options.tsval;
		attributes.rcv_tsecr = options.tsecr;
	}
	attributes.sack_ok = agreed.sack;
	if (agreed.wscale != WSCALE_NONE) {
		attributes.wscale_ok = 1;
		attributes.snd_wscale = agreed.wscale;
		attributes.rcv_wscale = WSCALE_OURS;
	}
	if (listener && adopt_assign(ctx, listener, &attributes)) {
		count(COUNT_ADOPTED);
		share_kernel_note(ctx, &key, (const struct server_key *)in->who.server);
	} else {
		count(COUNT_ADOPT_FAILED); /* the kernel answers with RST */
	}
release:
	if (found)
		bpf_sk_release(found);
	return verdict;
}

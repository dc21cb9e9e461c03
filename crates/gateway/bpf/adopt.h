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
#include "open.h"
#include "packet.h"
#include "resend.h"
#include "split.h"
#include "track.h"

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

/* A kernel type. libbpf matches it by name, but only if it is defined and not just declared. */
struct sock {};

extern int bpf_sk_assign_tcp_reqsk(struct __sk_buff *skb, struct sock *listener, struct bpf_tcp_req_attrs *attributes,
				   int attributes__sz) __ksym __weak;

/* The smallest MSS that the kernel takes here; it raises smaller ones to these. RFC 9293 (3.7.1)
 * and RFC 8200 (5) require every path to carry them. */
#define ADOPT_MSS4 536
#define ADOPT_MSS6 1220

/* Parses the packet from its IP header on. An Ethernet header usually comes first. But when
 * generic XDP had to copy the packet, Linux forgets how long the link header was, and tc sees
 * the packet without one (kernel 6.18, net/core/skbuff.c skb_pp_cow_data, which does not copy
 * mac_len). */
static __always_inline enum parsed adopt_parse(struct __sk_buff *ctx, __u16 port, struct incoming *in)
{
	struct cursor cursor = { packet_start(ctx), packet_end(ctx) };
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	struct tcp_header *tcp;
	enum parsed parsed;
	__u32 rest;

	in->network = (unsigned long)skb->head + skb->network_header - (unsigned long)skb->data;
	if (in->network == ETHERNET_HEADER) {
		if (!cursor_take(&cursor, ETHERNET_HEADER))
			return PARSED_MALFORMED;
	} else if (in->network) {
		return PARSED_OTHER;
	}
	if (ctx->protocol == bpf_htons(TYPE_IPV4))
		parsed = parse_ipv4(&cursor, ctx->len, in, &rest);
	else if (ctx->protocol == bpf_htons(TYPE_IPV6))
		parsed = parse_ipv6(&cursor, ctx->len, in, &rest);
	else
		return PARSED_OTHER;
	if (parsed != PARSED_SEGMENT)
		return parsed;
	tcp = cursor_take(&cursor, sizeof(*tcp));
	if (!tcp || rest < sizeof(*tcp))
		return PARSED_MALFORMED_TCP;
	in->header = tcp->offset >> 4 << 2;
	if (tcp->destination != bpf_htons(port) || in->header < sizeof(*tcp) || in->header > rest)
		return PARSED_OTHER;
	in->length = rest - in->header;
	in->who.client_port = tcp->source;
	in->who.server_port = tcp->destination;
	in->seq = bpf_ntohl(tcp->seq);
	in->ack = bpf_ntohl(tcp->ack);
	in->flags = tcp->flags;
	return PARSED_SEGMENT;
}

/* Reads a segment without its options. This and the functions below are separate, so that the
 * verifier checks each of them once. */
__noinline int adopt_read(struct __sk_buff *ctx, struct incoming *in)
{
	struct settings *s = settings_now();

	if (!s || !in)
		return PARSED_OTHER;
	return adopt_parse(ctx, s->port, in);
}

/* Reads a segment's timestamps. After the SYN, no other option says anything. */
__noinline int adopt_options(struct __sk_buff *ctx, const struct incoming *in, struct options *options)
{
	struct option_bytes bytes = {};
	__u32 length;

	if (!in || !options)
		return 0;
	length = in->header - sizeof(struct tcp_header);
	if (WITHIN(length, 1, OPTIONS_MAX) && !bpf_skb_load_bytes(ctx, in->transport + sizeof(struct tcp_header), bytes.at, length))
		options_read(&bytes, length, options);
	return 0;
}

/* Whether the segment carries a valid cookie, and what was agreed on in its handshake. */
__noinline int adopt_cookie(const struct incoming *in, const struct options *options, struct offer *agreed)
{
	struct settings *s = settings_now();
	struct cookie_message who;

	if (!s || !in || !options || !agreed)
		return 0;
	who = in->who;
	who.client_isn = bpf_htonl(in->seq - 1);
	return cookie_check(s, &who, bpf_ktime_get_boot_ns(), in->ack - 1, options->offer.timestamps, options->tsecr, agreed);
}

/* What happens to a segment without a socket. */
enum adoption {
	ADOPT_NONE, /* nothing for the listener: the stack answers or drops it */
	ADOPT_LATE, /* the listener must have something earlier first; the client sends it again */
	ADOPT_IT,
	ADOPT_JOINED, /* with the stored query in front */
	ADOPT_AHEAD,  /* with the kept data in front that came before the client had the reply */
	ADOPT_OPEN,   /* with all unanswered queries in front, and the kept data behind them */
};

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
	if (!WITHIN(first, 0, AHEAD_MAX) || !WITHIN(length, 0, SUM_MAX - AHEAD_MAX) ||
	    !WITHIN(bytes, sizeof(struct tcp_header), TCP_HEADER_MAX))
		return 0;
	at = ring_offset(ring_take(head, first + length));
	if (WITHIN(first, 1, AHEAD_MAX) &&
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

/* Whether the kernel may have one more connection from this source. */
static __always_inline bool adopter_allows(const struct settings *s, const struct source_key *key)
{
	struct adopter *adopter;

	if (!s->adoptions)
		return true;
	adopter = bpf_map_lookup_elem(&adopters, key);
	return !adopter || adopter->held + adopter->fresh < s->adoptions;
}

/* The kernel has one more connection from this source. */
static __always_inline void adopter_note(const struct settings *s, const struct source_key *key)
{
	struct adopter first = { .fresh = 1 }, *adopter;

	if (!s->adoptions)
		return;
	adopter = bpf_map_lookup_elem(&adopters, key);
	if (adopter)
		__sync_fetch_and_add(&adopter->fresh, 1);
	else
		bpf_map_update_elem(&adopters, key, &first, BPF_NOEXIST);
}

/* Where the segment is read: too large for the stack. */
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

SEC("tcx/ingress")
int gateway_adopt(struct __sk_buff *ctx)
{
	struct bpf_tcp_req_attrs attributes = {};
	struct bpf_sock_tuple tuple = {};
	struct options options = {};
	struct incoming *in = adopting_own();
	struct offer agreed = {};
	struct flow_key key = {};
	struct source_key source;
	struct bpf_sock *found;
	struct sock *listener;
	struct settings *s = settings_now();
	struct unsent unsent;
	enum adoption adoption;
	int parsed, verdict = TC_ACT_UNSPEC;
	bool shown = ctx->tc_index == SHOWN_INDEX;
	struct flow *flow;
	__u32 before = 0, place = 0; /* what goes in front of the segment, and its first sequence number */
	__u32 trimmed;
	__u16 least;

	if (!in || socket_marked(ctx))
		return TC_ACT_UNSPEC;
	__builtin_memset(in, 0, sizeof(*in));
	if (unsent_find(ctx, &unsent))
		return unsent.mark == UNSENT_MARK ? unsent_send(ctx, &unsent) :
		       ctx->tc_index == SPLIT_INDEX ? TC_ACT_UNSPEC : split_send(ctx, &unsent);
	if (shown)
		ctx->tc_index = 0;
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
	if (parsed != PARSED_SEGMENT || (in->flags & (FLAG_ACK | FLAG_SYN | FLAG_RST)) != FLAG_ACK)
		return TC_ACT_UNSPEC;

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
	if (adoption == ADOPT_NONE)
		goto release;
	if (flow && adoption == ADOPT_OPEN) {
		before = adopt_open_ready(&key, in->ack);
		place = flow->client_next + flow->ahead_length;
		/* What is sent again is in the ring, or is already answered. What follows it may be new. */
		trimmed = place - in->seq;
		if (trimmed > in->length) {
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
	/* Each adopted connection takes a place in the server's TCP, which has few. */
	source = source_of(in->who.client);
	if (!adopter_allows(s, &source)) {
		count(COUNT_ADOPT_LIMITED);
		goto release; /* the kernel answers with RST */
	}
	if (found && s->track && !shown) {
		__u32 first = in->seq;

		if (flow && adoption == ADOPT_JOINED)
			first = flow->query_seq;
		else if (flow && adoption == ADOPT_AHEAD)
			first = flow->client_next;
		else if (adoption == ADOPT_OPEN)
			first = place;
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
		/* A reply left at this very moment. */
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
	listener = found ? (struct sock *)bpf_skc_to_tcp_sock(found) : 0;
	if (listener && adopt_assign(ctx, listener, &attributes)) {
		count(COUNT_ADOPTED);
		adopter_note(s, &source);
	} else {
		count(COUNT_ADOPT_FAILED); /* the kernel answers with RST */
	}
release:
	if (found)
		bpf_sk_release(found);
	return verdict;
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc ingress: acknowledges a query before its reply, as in the paper (PROTOCOL.md, "Acknowledged at
 * once").
 *
 * XDP makes one packet out of one, and that is the query's datagram. tc can make two: it puts a
 * copy of the datagram into ingress again, on its way to the server, and turns the packet itself
 * into the ACK, which goes back to the client.
 */
#pragma once

#include "flow.h"
#include "packet.h"
#include "parse.h"
#include "resend.h"
#include "segment.h"

/* The headers of the datagram and of the segment, which are too large for the stack. */
struct acknowledging {
	__be32 ip[10];
	__be32 client[4], server[4];
	struct sending o;
	__u8 mac[12];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct acknowledging);
} acknowledging SEC(".maps");

/* Returns the entry of a datagram to a server, if its client still waits for an ACK. Stores the
 * addresses in `a`. */
static __always_inline struct flow *acknowledge_due(struct __sk_buff *ctx, __u32 network, struct acknowledging *a)
{
	struct settings *s = settings_now();
	struct flow_key key = {};
	__be32 *ip = a->ip;
	__be16 ports[2];
	struct flow *flow;
	bool v6 = ctx->protocol == bpf_htons(TYPE_IPV6);

	if (!s)
		return 0;
	/* XDP has removed everything between the headers. */
	if (v6) {
		if (bpf_skb_load_bytes(ctx, network, ip, 40) || (bpf_ntohl(ip[1]) >> 8 & 0xff) != IP_UDP)
			return 0;
		__builtin_memcpy(a->client, ip + 2, sizeof(a->client));
		__builtin_memcpy(a->server, ip + 6, sizeof(a->server));
		network += 40;
	} else {
		if (ctx->protocol != bpf_htons(TYPE_IPV4) || bpf_skb_load_bytes(ctx, network, ip, 20) ||
		    bpf_ntohl(ip[0]) >> 24 != 0x45 || (bpf_ntohl(ip[2]) >> 16 & 0xff) != IP_UDP ||
		    ip[1] & bpf_htonl(0x3fff))
			return 0;
		address_map4(a->client, ip[3]);
		address_map4(a->server, ip[4]);
		network += 20;
	}
	if (bpf_skb_load_bytes(ctx, network, ports, sizeof(ports)) || ports[1] != bpf_htons(s->port) ||
	    !flow_key_of(&key, a->client, ports[0], a->server))
		return 0;
	flow = flow_find(&key);
	if (!flow || flow->state != FLOW_QUERY || !(flow->flags & FLOW_ACK_DUE))
		return 0;
	__builtin_memset(&a->o, 0, sizeof(a->o));
	segment_addresses(&a->o, v6, a->server, a->client);
	segment_ports(&a->o, ports[1], ports[0], flow->flags & FLOW_TIMESTAMPS, flow->tsval, flow->client_tsval);
	return flow;
}

/* Acknowledges the query of this datagram if that is due. A separate function, so that the
 * verifier checks it once. */
__noinline int acknowledge(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	__u32 zero = 0;
	struct acknowledging *a = bpf_map_lookup_elem(&acknowledging, &zero);
	struct flow *flow = a ? acknowledge_due(ctx, unsent_network(skb), a) : 0;

	if (!a || !flow)
		return TC_ACT_UNSPEC;
	/* The whole word is changed atomically, because egress changes it too. */
	__sync_fetch_and_and((__u32 *)&flow->state, ~((__u32)FLOW_ACK_DUE << 8));
	a->o.h.tcp.seq = bpf_htonl(flow->server_seq);
	a->o.h.tcp.ack = bpf_htonl(flow->client_next - !!(flow->flags & FLOW_CLIENT_FIN));
	a->o.h.tcp.flags = FLAG_ACK;
	a->o.h.tcp.window = bpf_htons(flow_our_window(flow));
	/* Without the ACK the client sends its query again. */
	if (unsent_link(ctx, skb) || bpf_clone_redirect(ctx, ctx->ifindex, BPF_F_INGRESS))
		return TC_ACT_UNSPEC;
	if (bpf_skb_load_bytes(ctx, 0, a->mac, sizeof(a->mac)) || segment_room(ctx, &a->o, 0) || segment_headers(ctx, &a->o, 0, 0) ||
	    bpf_skb_store_bytes(ctx, 0, a->mac + 6, 6, 0) || bpf_skb_store_bytes(ctx, 6, a->mac, 6, 0)) {
		count(COUNT_XDP_ERROR);
		return TC_ACT_SHOT;
	}
	return bpf_redirect(ctx->ifindex, 0);
}

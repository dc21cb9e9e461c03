/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * XDP: what the machine's own sockets say about a connection and its server (PROTOCOL.md, "What the
 * machine has").
 */
#pragma once

#include <bpf/bpf_core_read.h>

#include "answer.h"
#include "parse.h"

/* The fields of the kernel's struct that mark a listener whose connections only the kernel can
 * begin: bpf_sk_assign_tcp_reqsk refuses them (kernel 6.18, net/core/filter.c). */
struct tcp_sock {
	bool is_mptcp;
} __attribute__((preserve_access_index));

enum beside {
	BESIDE_SERVER,	   /* the connection has no socket, and the server is there */
	BESIDE_NO_SERVER,  /* neither: nobody reads datagrams, or the listener cannot take connections over */
	BESIDE_CONNECTION, /* the kernel has the connection */
	BESIDE_TIME_WAIT,  /* the kernel had the connection less than a minute ago */
};

/* Returns which of these is true of the segment in the scratch. If `server` is 0, it does not look
 * for the server. A separate function, so that the verifier checks it once. */
__noinline int beside(struct xdp_md *ctx, int server)
{
	struct scratch *scratch = scratch_own();
	struct bpf_sock_tuple tuple = {};
	const struct incoming *in;
	struct tcp_sock *listener;
	struct bpf_sock *sock;
	int found = BESIDE_SERVER, state;
	__u32 size;

	if (!scratch)
		return BESIDE_SERVER;
	in = &scratch->in;
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
	if (sock) {
		state = sock->state;
		if (state != BPF_TCP_LISTEN) {
			found = state == BPF_TCP_TIME_WAIT ? BESIDE_TIME_WAIT : BESIDE_CONNECTION;
		} else if (server && bpf_core_field_exists(struct tcp_sock, is_mptcp)) {
			listener = bpf_skc_to_tcp_sock(sock);
			if (listener && listener->is_mptcp)
				found = BESIDE_NO_SERVER;
		}
		bpf_sk_release(sock);
	}
	if (found != BESIDE_SERVER || !server)
		return found;
	sock = bpf_sk_lookup_udp(ctx, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sock)
		return BESIDE_NO_SERVER;
	bpf_sk_release(sock);
	return BESIDE_SERVER;
}

/* Tells tc ingress that the kernel has the connection, so that it need not look for the socket
 * again. If the driver leaves no room before the frame, tc ingress looks for itself. */
static __always_inline void socket_mark(struct xdp_md *ctx)
{
	__u32 *mark;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*mark)))
		return;
	mark = CONTEXT_FIELD(struct xdp_md, ctx, data_meta);
	if ((void *)(mark + 1) <= CONTEXT_FIELD(struct xdp_md, ctx, data))
		*mark = SOCKET_MARK;
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What both tc programs need in order to read a packet.
 */
#pragma once

#include <bpf/bpf_core_read.h>

/* The fields of the kernel's structs that say who computes the checksum, where the headers are, and
 * what the packet's network namespace has switched off (kernel 6.18, include/linux/skbuff.h,
 * include/net/netns/ipv4.h). */
struct netns_ipv4 {
	__u8 sysctl_tcp_syncookies;
	__u8 sysctl_tcp_window_scaling;
} __attribute__((preserve_access_index));
struct net {
	struct netns_ipv4 ipv4;
} __attribute__((preserve_access_index));
typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;
struct net_device {
	possible_net_t nd_net;
} __attribute__((preserve_access_index));
struct sk_buff {
	struct net_device *dev;
	unsigned char *head;
	unsigned char *data;
	__u16 csum_start;
	__u16 csum_offset;
	__u16 network_header; /* from head */
	__u16 mac_header;     /* from head */
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));
#define IP_SUMMED_PARTIAL 3 /* CHECKSUM_PARTIAL */

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;

/* Loads of context fields that clang must not merge or move, because the verifier only accepts
 * them in this form. */
static __always_inline void *packet_start(struct __sk_buff *ctx)
{
	void *start;

	asm volatile("%[start] = *(u32 *)(%[ctx] + %[at])"
		     : [start] "=r"(start)
		     : [ctx] "r"(ctx), [at] "i"(offsetof(struct __sk_buff, data)));
	return start;
}

static __always_inline void *packet_end(struct __sk_buff *ctx)
{
	void *end;

	asm volatile("%[end] = *(u32 *)(%[ctx] + %[at])"
		     : [end] "=r"(end)
		     : [ctx] "r"(ctx), [at] "i"(offsetof(struct __sk_buff, data_end)));
	return end;
}

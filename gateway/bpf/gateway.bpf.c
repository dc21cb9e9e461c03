/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Stateless TCP for DNS, as PROTOCOL.md specifies it, in three programs:
 *
 *   gateway_xdp      XDP, ingress    answers SYNs, turns queries into datagrams, resends replies
 *   gateway_adopt    tc, ingress     gives what is unusual to the kernel's own TCP
 *   gateway_egress   tc, egress      turns the server's datagrams into segments
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "maps.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The ring's size in bytes, a power of two. The user side sets it together with the map's size. */
const volatile __u32 RING_SIZE = 1 << 24;

static __always_inline void count(enum counter which)
{
	__u32 key = which;
	__u64 *value = bpf_map_lookup_elem(&counters, &key);

	if (value)
		*value += 1; /* each CPU has its own */
}

static __always_inline void count_more(enum counter which, __u32 more)
{
	__u32 key = which;
	__u64 *value = bpf_map_lookup_elem(&counters, &key);

	if (value)
		*value += more;
}

#include "bounds.h"
#include "ring.h"
#include "checksum.h"
#include "parse.h"
#include "ingress.h"
#include "adopt.h"
#include "egress.h"

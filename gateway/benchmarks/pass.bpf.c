/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Passes everything. veth wakes its receiver for what its peer's XDP program sends back (XDP_TX) only where the
 * receiver has an XDP program too (drivers/net/veth.c of Linux 6.18, veth_xdp_flush).
 */
#include <linux/bpf.h>

__attribute__((section("xdp"), used)) int pass(struct xdp_md *context)
{
	return XDP_PASS;
}

char _license[] __attribute__((section("license"), used)) = "Dual MIT/GPL";

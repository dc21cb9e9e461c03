/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#pragma once

SEC("xdp.frags")
int gateway_xdp(struct xdp_md *ctx)
{
	if (ctx->data_end - ctx->data < 14)
		count(COUNT_MALFORMED);
	return XDP_PASS;
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#pragma once

SEC("tcx/egress")
int gateway_egress(struct __sk_buff *ctx)
{
	return TC_ACT_UNSPEC; /* the next program, then as if we were not there */
}

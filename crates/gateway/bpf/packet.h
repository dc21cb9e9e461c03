/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What both tc programs need to read a packet.
 */
#pragma once

/* A bound that the verifier is to see, though the compiler has proved it already. */
#define WITHIN(value, low, high) ({ asm volatile("" : "+r"(value)); value >= (low) && value <= (high); })

/* Loads of context fields that clang must not merge or move: the verifier knows them alone. */
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

/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Runs the programs' SipHash-2-4 on a packet and writes the hash over the packet's first eight
 * bytes. siphash.rs passes it the authors' test vectors.
 *
 * A packet is the key (16 bytes), the message, zeros up to one byte before a multiple of eight, and
 * the message's length in the last byte.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "../../bpf/siphash.h"

SEC("xdp")
int siphash_of_packet(struct xdp_md *ctx)
{
	struct cookie_key key;
	struct siphash hash;
	__u64 word = 0, result;
	__u32 at = sizeof(key);

	if (bpf_xdp_load_bytes(ctx, 0, &key, sizeof(key)))
		return XDP_ABORTED;
	siphash_start(&hash, &key);
	for (int i = 0; i < 8; i++) {
		if (bpf_xdp_load_bytes(ctx, at, &word, sizeof(word)))
			return XDP_ABORTED;
		at += sizeof(word);
		if (at >= bpf_xdp_get_buff_len(ctx))
			break;
		siphash_word(&hash, word);
	}
	result = siphash_end(&hash, word);
	return bpf_xdp_store_bytes(ctx, 0, &result, sizeof(result)) ? XDP_ABORTED : XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

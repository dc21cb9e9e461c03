/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * tc egress: which query a datagram of the server answers.
 */
#pragma once

#include "dns.h"
#include "datagram.h"

/* Whether a reply says only that the server will not answer over UDP: it is cut off and has no
 * record, as rate limits send it, or its code is BADCOOKIE. A reply without a question counts too.
 */
static __always_inline bool refused(const struct datagram *d)
{
	return !d->questions || (d->dns_flags & bpf_htons(DNS_TC) && !d->records) ||
	       (d->dns_flags & bpf_htons(DNS_RCODE)) == bpf_htons(DNS_BADCOOKIE);
}

/* Where a reply's question is read. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct query_room);
} question_room SEC(".maps");

/* Reads the question of a datagram that may be a reply of ours. */
static __always_inline void question_read(struct __sk_buff *ctx, const struct settings *s, struct datagram *d)
{
	__u32 zero = 0, bytes, question;
	struct query_room *room = bpf_map_lookup_elem(&question_room, &zero);

	if (!room || d->questions != bpf_htons(1))
		return;
	bytes = d->bytes - UDP_HEADER;
	if (bytes > d->length - UDP_HEADER)
		bytes = d->length - UDP_HEADER;
	if (bytes > DNS_HEADER + DNS_NAME_MAX + 4)
		bytes = DNS_HEADER + DNS_NAME_MAX + 4;
	if (!WITHIN(bytes, DNS_HEADER, DNS_HEADER + DNS_NAME_MAX + 4) ||
	    bpf_skb_load_bytes(ctx, d->l4 + UDP_HEADER, room->bytes + DNS_PREFIX, bytes))
		return;
	question = question_length(room, DNS_PREFIX + bytes);
	if (!question)
		return;
	d->hash[0] = question_hash(&s->keys[0], room, question);
	d->hash[1] = question_hash(&s->keys[1], room, question);
	d->readable = true;
}

/* What a datagram may be a reply to. */
enum reply_of { REPLY_ONE, REPLY_OPEN };

/* Which of these it is; if it may be a reply, its question is read. A separate function, so that
 * the verifier checks it once. */
__noinline int reply_of(struct __sk_buff *ctx, struct datagram *d)
{
	struct settings *s = settings_now();
	struct flow_key key = {};
	struct flow *flow;
	bool open;

	if (!d || !s || d->fragment)
		return REPLY_ONE;
	datagram_key(d, &key);
	flow = flow_find(&key);
	open = flow && (flow->state == FLOW_OPEN || flow->state == FLOW_KERNEL);
	if (open || (flow && flow->dns_id == d->dns_id))
		question_read(ctx, s, d);
	return open ? REPLY_OPEN : REPLY_ONE;
}

/* Whether a datagram answers the question of an entry. The alternative is the answer to a UDP
 * query with the same ports and ID, which anybody can send in the client's name. A datagram
 * without a question may answer it. */
static __always_inline bool question_is(const struct datagram *d, __u32 question)
{
	return !d->questions || (d->readable && (d->hash[0] == question || d->hash[1] == question));
}

/* narrows_link.h: a bottleneck in virtual time, for the loop of a test.
 *
 * A link is one direction: a queue, a transmitter with a rate, a delay, and a wire that may vary the
 * delay and lose packets. Packets go in with a time and come out with a time. The caller's clock is
 * any number of nanoseconds that never goes back. Build and link it:
 *
 *     cargo build --release -p narrows-link-c
 *     cc -Icrates/link-c/include mine.c target/release/libnarrowslink.a -lm -lpthread -ldl
 *
 * A link belongs to one thread at a time; different links know nothing of each other. No function
 * keeps a pointer that it gets, except for payloads.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef NARROWS_LINK_H
#define NARROWS_LINK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. narrows_link_new() refuses another one. */
#define NARROWS_LINK_ABI 1

/* No time: nothing will come out. */
#define NARROWS_LINK_NEVER UINT64_MAX

/* The ECN field of an IP header (RFC 3168, section 5). */
enum {
    NARROWS_LINK_NOT_ECT = 0,
    NARROWS_LINK_ECT1 = 1,
    NARROWS_LINK_ECT0 = 2,
    NARROWS_LINK_CE = 3
};

/* The transport protocol, for queues with filters. */
enum { NARROWS_LINK_OTHER = 0, NARROWS_LINK_UDP = 1, NARROWS_LINK_TCP = 2 };

/* What became of a packet. */
enum {
    /* It is at the other end. */
    NARROWS_LINK_ARRIVED = 0,
    /* The queue dropped it because it was full. */
    NARROWS_LINK_DROPPED_FULL = 1,
    /* The queue's AQM dropped it. */
    NARROWS_LINK_DROPPED_EARLY = 2,
    /* The queue's AQM dropped it above its upper threshold (RED). */
    NARROWS_LINK_DROPPED_FORCED = 3,
    /* The wire lost it. */
    NARROWS_LINK_LOST = 4
};

/* Errors. After each of them, the link is as before the call. */
enum {
    /* A time before that of an earlier call. */
    NARROWS_LINK_PAST = -1,
    /* A time that is later than 213 days, the end of time. */
    NARROWS_LINK_TOO_LATE = -2,
    /* A length that is not from 1 to 65535 bytes. */
    NARROWS_LINK_LENGTH = -3,
    /* A code point above 63. */
    NARROWS_LINK_CODE_POINT = -4,
    /* A null pointer, or an ECN field or a protocol that does not exist. */
    NARROWS_LINK_ARGUMENT = -5,
    /* A bug of narrows. Do not use the link any more. */
    NARROWS_LINK_BUG = -6
};

/* What a link and its queue read of a packet, and what the caller wants back with it. */
typedef struct narrows_link_packet {
    /* The caller's: never read. */
    void *payload;
    /* Any number that the packets of a flow share, for queues that tell flows apart. */
    uint64_t flow;
    /* The length of the IP packet. */
    uint32_t bytes;
    /* Numbers of the source and the destination host, for cake and filters; 0 if nothing asks. */
    uint32_t source;
    uint32_t destination;
    /* Ports, for filters; 0 if nothing asks. */
    uint16_t source_port;
    uint16_t destination_port;
    /* On arrival NARROWS_LINK_CE if the queue marked the packet. */
    uint8_t ecn;
    /* The DSCP, 0 to 63. On arrival 0 if the queue washed it. */
    uint8_t dscp;
    uint8_t protocol;
    uint8_t reserved[5];
} narrows_link_packet;

/* A packet that comes out. */
typedef struct narrows_link_outcome {
    /* When it arrived, was dropped or was lost; nanoseconds, rounded up. */
    uint64_t at;
    /* When it was pushed; nanoseconds. */
    uint64_t pushed_at;
    int32_t fate;
    int32_t reserved;
    narrows_link_packet packet;
} narrows_link_outcome;

/* What has become of the packets so far. Drops and losses count as soon as the link knows of them,
 * which may be before their time. */
typedef struct narrows_link_counters {
    uint64_t pushed;
    uint64_t arrived;
    uint64_t marked;
    uint64_t dropped_full;
    uint64_t dropped_early;
    uint64_t dropped_forced;
    uint64_t lost;
} narrows_link_counters;

/* The settings of a link. A member that is 0 or NULL has its default; so begin with
 * { .abi = NARROWS_LINK_ABI, .rate = 10e6 }. */
typedef struct narrows_link_config {
    /* NARROWS_LINK_ABI. */
    uint32_t abi;
    /* Whether narrows_link_pop() also returns packets that were dropped or lost. */
    uint32_t reports_losses;
    /* The rate in bit/s; must be given unless mahimahi or rates is. */
    double rate;
    /* The propagation delay in seconds. */
    double delay;
    /* Delay variation as netem's: half the width of a uniform distribution, in seconds. */
    double jitter;
    /* Whether packets may overtake others because of it. */
    uint32_t jitter_reorders;
    /* Added to an IP packet's length on the wire, and the shortest frame; bytes (Ethernet: 38, 84). */
    uint32_t frame_overhead;
    uint32_t frame_min;
    /* Added to an IP packet's length where the queue counts bytes (Linux on Ethernet: 14). */
    uint32_t queue_overhead;
    /* The probability that the wire loses a packet. */
    double loss;
    /* Losses in bursts instead (Gilbert-Elliott, tc-netem(8) gemodel): the probabilities that a good
     * line turns bad behind a packet, and a bad one good. A bad line loses every packet. */
    double turns_bad;
    double turns_good;
    /* The queue: its name and its settings, "fq-codel ecn=true target=5ms limit=1000"; a pfifo of
     * 1000 packets by default. Settings mostly have tc(8)'s names; docs/reference/scenario.md
     * has them all, in the tables of queues. */
    const char *queue;
    /* The text of a trace in Mahimahi's format: a line for each millisecond at which 1500 bytes may
     * leave; it starts again after its last line. */
    const char *mahimahi;
    /* The text of a table of rates: lines of "seconds,bit/s" from 0 on. A rate of 0 takes the link
     * down; the last one holds to the end. */
    const char *rates;
    /* The source of all randomness. The same seed gives the same run; give each link its own. */
    uint64_t seed;
    /* Called with the payload of a packet that does not come out of narrows_link_pop(): it was
     * dropped or lost without being reported, or is on the link when that is freed. May be NULL. It
     * must not call functions of the link. */
    void (*release)(void *payload);
} narrows_link_config;

typedef struct narrows_link narrows_link;

/* Creates a link. If it cannot, returns NULL and writes a line that says why to why, which has room
 * for why_size bytes; it is cut there and always ends with 0. */
narrows_link *narrows_link_new(const narrows_link_config *config, char *why, size_t why_size);

/* Frees a link; does nothing with NULL. */
void narrows_link_free(narrows_link *link);

/* Takes in count packets that reach the queue at now, as one burst. Returns 0, or an error; then it
 * has taken none of them, and their payloads are still the caller's. */
int narrows_link_push(narrows_link *link, uint64_t now, const narrows_link_packet *packets,
                      size_t count);

/* Returns when to call narrows_link_pop() if nothing is pushed before, or NARROWS_LINK_NEVER. It may
 * return nothing then; in that case the next time is later. */
uint64_t narrows_link_next_at(const narrows_link *link);

/* Writes the next packet that has come out by now to out and returns 1, or returns 0 if there is
 * none, or an error. A time of NARROWS_LINK_NEVER empties the link. */
int narrows_link_pop(narrows_link *link, uint64_t now, narrows_link_outcome *out);

/* Writes what waits in the queue at now. Returns 0 or an error. */
int narrows_link_backlog(narrows_link *link, uint64_t now, uint64_t *packets, uint64_t *bytes);

/* Writes the counters. Returns 0 or an error. */
int narrows_link_count(const narrows_link *link, narrows_link_counters *counters);

/* Returns a sentence about an error. */
const char *narrows_link_error(int error);

#ifdef __cplusplus
}
#endif

#endif

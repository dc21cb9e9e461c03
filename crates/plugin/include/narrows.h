/* narrows.h: write a queue or a congestion control in C, or in any language that can export functions
 * of C.
 *
 * A plugin is a shared object that exports narrows_plugin(). It runs inside the simulator's process
 * with all rights of the user: narrows notices some of its errors, but cannot contain it.
 *
 *     cc -O2 -shared -fPIC -I"$(narrows plugin --include)" mine.c -o mine.so
 *     narrows run scenario.toml --plugin ./mine.so \
 *         --set 'links.bottleneck.forward.queue={ kind = "plugin", name = "mine" }' \
 *         --set 'traffic.downloads.tcp.congestion={ name = "mine" }'
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef NARROWS_H
#define NARROWS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. narrows refuses a plugin of another one. */
#define NARROWS_ABI 2

/* Simulated time in picoseconds since the run began. */
typedef uint64_t narrows_time;
#define NARROWS_NS ((narrows_time)1000)
#define NARROWS_US ((narrows_time)1000 * NARROWS_NS)
#define NARROWS_MS ((narrows_time)1000 * NARROWS_US)
#define NARROWS_S ((narrows_time)1000 * NARROWS_MS)
/* No time: from ready_at, nothing waits. */
#define NARROWS_NEVER UINT64_MAX

/* The ECN field of an IP header (RFC 3168, section 5). */
enum { NARROWS_NOT_ECT = 0, NARROWS_ECT1 = 1, NARROWS_ECT0 = 2, NARROWS_CE = 3 };
/* The transport protocol. */
enum { NARROWS_OTHER = 0, NARROWS_UDP = 1, NARROWS_TCP = 2 };

/* What a queue may know about a packet. */
typedef struct narrows_packet {
    /* Which packet it is: no other packet that waits in this queue has this number. */
    uint64_t handle;
    /* A hash of its addresses, protocol and ports. */
    uint64_t flow;
    /* When it was passed to the queue. */
    narrows_time arrived;
    /* The length that counts in queues, with the link's framing.queue_overhead. */
    uint32_t bytes;
    /* The sending and the receiving host: numbers that tell hosts apart. */
    uint32_t source;
    uint32_t destination;
    /* Ports; zero if there are none. */
    uint16_t source_port;
    uint16_t destination_port;
    uint8_t ecn;
    uint8_t protocol;
    /* The DSCP, 0 to 63. */
    uint8_t dscp;
    uint8_t reserved[5];
} narrows_packet;

/* A decision about a packet. A mark is a drop if the packet is not ECN-capable. */
enum { NARROWS_PASS = 0, NARROWS_MARK = 1, NARROWS_DROP = 2 };

/* A setting of the queue or control in the scenario. number: in base units (seconds, bytes, bit/s, 0
 * or 1 for false or true); NaN if it is not a number. text: as the scenario has it. */
typedef struct narrows_setting {
    const char *key;
    const char *text;
    double number;
} narrows_setting;

/* What create() gets. Nothing here outlives the call. */
typedef struct narrows_start {
    const narrows_setting *settings;
    size_t settings_count;
    /* Follows from the run's seed and the queue's or connection's place: the source of all
     * randomness. */
    uint64_t seed;
    /* Of a queue: the line's rate, which is only the first if it changes; bit/s. */
    uint64_t rate;
    /* If create() returns NULL, narrows prints what it has written here (one line, with a NUL). */
    char *error;
    size_t error_length;
} narrows_start;

/* Where enqueue() and dequeue() write what becomes of other packets. There is room for every packet
 * that waits. */
typedef struct narrows_actions {
    uint64_t *dropped;
    size_t dropped_count;
    uint64_t *marked;
    size_t marked_count;
} narrows_actions;

static inline void narrows_drop(narrows_actions *actions, uint64_t handle)
{
    actions->dropped[actions->dropped_count++] = handle;
}

/* Only for packets that are ECN-capable. */
static inline void narrows_mark(narrows_actions *actions, uint64_t handle)
{
    actions->marked[actions->marked_count++] = handle;
}

/* From dequeue: no packet leaves now. */
#define NARROWS_NONE UINT64_MAX

/* A queue, in one of two forms.
 *
 * The short form decides about packets, and narrows keeps them, first in, first out: it has admit,
 * or release, or both. The full form keeps the handles of its packets in any order: it has enqueue
 * and dequeue, and ready_at if it holds packets back. Other members are NULL.
 */
typedef struct narrows_queue {
    /* What scenarios call it. */
    const char *name;
    /* Returns the state of a new queue, or NULL with a reason in start->error. It may not be NULL in
     * this table; destroy may. */
    void *(*create)(const narrows_start *start);
    void (*destroy)(void *state);

    /* Short form. The most packets that wait, 0 for 1000. */
    uint32_t limit;
    /* Decides about a packet that arrives. backlog and bytes: what waits without it. */
    int (*admit)(void *state, uint32_t backlog, uint64_t bytes, narrows_time now,
                 const narrows_packet *packet);
    /* Decides about the packet in front when it could leave. backlog and bytes: with it. */
    int (*release)(void *state, uint32_t backlog, uint64_t bytes, narrows_time now,
                   const narrows_packet *packet);

    /* Full form. Decides about a packet that arrives; if it passes, the queue has it. */
    int (*enqueue)(void *state, narrows_time now, const narrows_packet *packet,
                   narrows_actions *actions);
    /* Returns the packet that leaves now, or NARROWS_NONE. */
    uint64_t (*dequeue)(void *state, narrows_time now, narrows_actions *actions);
    /* If dequeue has just returned NARROWS_NONE although packets wait: when to ask again, later than
     * now. */
    narrows_time (*ready_at)(void *state, narrows_time now);
} narrows_queue;

/* The congestion state of a sender, with Linux's names (RFC 5681; tcp_ca_state). */
enum {
    NARROWS_OPEN = 0,
    /* Duplicates or SACKs, but no loss was found yet. */
    NARROWS_DISORDER = 1,
    /* The window shrinks because of an ECN echo. */
    NARROWS_CWR = 2,
    /* Fast recovery. */
    NARROWS_RECOVERY = 3,
    /* After a timeout. */
    NARROWS_LOSS = 4
};

/* What TCP knew at the last acknowledgement. Counts are segments; spans are NARROWS_NEVER if they are
 * not known. */
typedef struct narrows_ack {
    /* The present time; NARROWS_NEVER in on_start. */
    narrows_time now;
    /* The round trip of the newest segment that it acknowledges, the smoothed round trip, and the
     * shortest of the connection. */
    narrows_time rtt;
    narrows_time smoothed_rtt;
    narrows_time shortest_rtt;
    /* In on_restart: how long nothing was sent. */
    narrows_time idle;
    /* How fast the path has delivered payload, in bit/s; NaN if it does not say
     * (draft-cheng-iccrg-delivery-rate-estimation). */
    double delivery_rate;
    /* What it acknowledges or SACKs, what it shows to be lost, and, with Accurate ECN, what it
     * reports as marked. */
    uint32_t acked;
    uint32_t lost;
    uint32_t marked;
    /* What is in flight after it, and was before it. */
    uint32_t in_flight;
    uint32_t prior_in_flight;
    /* What the connection has delivered, modulo 2^32, and what it had when the newest of these
     * segments was sent: a round has passed once the latter reaches what the former was when the round
     * began. */
    uint32_t delivered;
    uint32_t prior_delivered;
    /* The payload of a full segment in bytes. */
    uint32_t mss;
    uint8_t state;
    /* Whether the application limited the sender when what it acknowledges was sent. */
    uint8_t app_limited;
    /* Whether the window limits the sender, rather than the application or the receiver. */
    uint8_t window_limited;
    uint8_t reserved[5];
} narrows_ack;

/* What a control sets. Where TCP changes the window itself, the value is TCP's before each call. */
typedef struct narrows_sending {
    /* The window in segments, at least 1. TCP uses the whole part. */
    double cwnd;
    /* The slow-start threshold in segments, above 0; less than 2 count as 2. INFINITY: unbounded. */
    double ssthresh;
    /* How fast payload leaves, in bit/s; INFINITY: as fast as the windows allow. */
    double pacing_rate;
} narrows_sending;

typedef void (*narrows_hear)(void *state, const narrows_ack *ack, narrows_sending *sending);

/* A congestion control of TCP. It begins as Reno (RFC 5681): functions that are NULL do what Reno
 * does. TCP finds out what is lost, and takes the window to ssthresh within a round trip of a loss or
 * an ECN echo (RFC 6937), unless the control owns the window. Each end of a connection has a state of
 * its own. */
typedef struct narrows_control {
    /* What scenarios call it. */
    const char *name;
    /* As of a queue; start->rate is 0. */
    void *(*create)(const narrows_start *start);
    void (*destroy)(void *state);
    /* 1: TCP leaves the window to it in every state, also after losses and idle times (as Linux does
     * for BBR); grow is never called. Only a timeout makes the window what is in flight plus one. */
    int owns_window;
    /* The connection is established. */
    narrows_hear on_start;
    /* Each acknowledgement of something in flight. */
    narrows_hear on_ack;
    /* After on_ack, if the window limits the sender and is not shrinking: it may grow. */
    narrows_hear grow;
    /* A loss, at most once in a window, and a timeout, before on_timeout: sets ssthresh, which is
     * INFINITY at the call, or cwnd to where the window has to fall. It stays if neither is set. */
    narrows_hear on_loss;
    /* The same for an ECN echo; on_loss if it is NULL. */
    narrows_hear on_ecn;
    /* A timeout: TCP has set the window to what is in flight plus one. */
    narrows_hear on_timeout;
    /* A reduction was needless: TCP has put window and threshold back. */
    narrows_hear on_undo;
    /* Something is sent after a time in which nothing was in flight. */
    narrows_hear on_restart;
} narrows_control;

/* What a shared object offers: queues, congestion controls, or both. */
typedef struct narrows_offer {
    /* NARROWS_ABI. */
    uint32_t abi;
    /* sizeof(narrows_queue). */
    uint32_t queue_size;
    const narrows_queue *queues;
    size_t queues_count;
    /* sizeof(narrows_control). */
    size_t control_size;
    const narrows_control *controls;
    size_t controls_count;
} narrows_offer;

/* The function that a plugin exports. What it returns lives as long as the shared object. */
#if defined(_WIN32)
#define NARROWS_EXPORT __declspec(dllexport)
#else
#define NARROWS_EXPORT __attribute__((visibility("default")))
#endif
NARROWS_EXPORT const narrows_offer *narrows_plugin(void);

/* A generator of random numbers: PCG-XSH-RR 64/32 (O'Neill, "PCG: A Family of Simple Fast
 * Space-Efficient Statistically Good Algorithms for Random Number Generation", 2014). */
typedef struct narrows_random {
    uint64_t state;
} narrows_random;

static inline uint32_t narrows_random_u32(narrows_random *random)
{
    uint64_t old = random->state;
    uint32_t mixed = (uint32_t)(((old >> 18) ^ old) >> 27);
    uint32_t turn = (uint32_t)(old >> 59);
    random->state = old * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (mixed >> turn) | (mixed << ((32 - turn) & 31));
}

static inline narrows_random narrows_random_from(uint64_t seed)
{
    narrows_random random = { seed + UINT64_C(1442695040888963407) };
    narrows_random_u32(&random);
    return random;
}

/* From 0 to below 1. */
static inline double narrows_random_unit(narrows_random *random)
{
    return narrows_random_u32(random) / 4294967296.0;
}

#ifdef __cplusplus
}
#endif

#endif

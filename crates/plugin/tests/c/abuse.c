/* Queues and congestion controls that break the rules of narrows.h, each in its own way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "narrows.h"

struct abuse {
    uint64_t handle;
    int calls;
};

static void *create(const narrows_start *start)
{
    (void)start;
    return calloc(1, sizeof(struct abuse));
}

static void *refuse(const narrows_start *start)
{
    strncpy(start->error, "wants\nnothing", start->error_length);
    return NULL;
}

static void *silent(const narrows_start *start)
{
    (void)start;
    return NULL;
}

static int nonsense(void *state, uint32_t backlog, uint64_t bytes, narrows_time now,
                    const narrows_packet *packet)
{
    (void)state, (void)backlog, (void)bytes, (void)now, (void)packet;
    return 7;
}

static int keep(void *state, narrows_time now, const narrows_packet *packet,
                narrows_actions *actions)
{
    struct abuse *abuse = state;
    (void)now, (void)actions;
    abuse->handle = packet->handle;
    return NARROWS_PASS;
}

/* Gives the same packet each time. */
static uint64_t twice(void *state, narrows_time now, narrows_actions *actions)
{
    struct abuse *abuse = state;
    (void)now, (void)actions;
    return abuse->handle;
}

static uint64_t foreign(void *state, narrows_time now, narrows_actions *actions)
{
    (void)state, (void)now, (void)actions;
    return 123456789;
}

static uint64_t never(void *state, narrows_time now, narrows_actions *actions)
{
    (void)state, (void)now, (void)actions;
    return NARROWS_NONE;
}

static narrows_time past(void *state, narrows_time now)
{
    (void)state;
    return now - 1;
}

static uint64_t drops_and_gives(void *state, narrows_time now, narrows_actions *actions)
{
    struct abuse *abuse = state;
    (void)now;
    narrows_drop(actions, abuse->handle);
    return abuse->handle;
}

static uint64_t drops_foreign(void *state, narrows_time now, narrows_actions *actions)
{
    struct abuse *abuse = state;
    (void)now;
    narrows_drop(actions, 77);
    return abuse->handle;
}

static uint64_t marks_foreign(void *state, narrows_time now, narrows_actions *actions)
{
    struct abuse *abuse = state;
    (void)now;
    narrows_mark(actions, 77);
    return abuse->handle;
}

static uint64_t counts_too_many(void *state, narrows_time now, narrows_actions *actions)
{
    struct abuse *abuse = state;
    (void)now;
    actions->dropped_count = (size_t)1 << 40;
    return abuse->handle;
}

#define FULL(title, function, ready)                                                              \
    { .name = title, .create = create, .destroy = free, .enqueue = keep, .dequeue = function,     \
      .ready_at = ready }

static const narrows_queue queues[] = {
    { .name = "refuse", .create = refuse, .destroy = free, .admit = nonsense },
    { .name = "silent", .create = silent, .destroy = free, .admit = nonsense },
    { .name = "nonsense", .create = create, .destroy = free, .admit = nonsense },
    FULL("twice", twice, NULL),
    FULL("foreign", foreign, NULL),
    FULL("never", never, NULL),
    FULL("past", never, past),
    FULL("drops-and-gives", drops_and_gives, NULL),
    FULL("drops-foreign", drops_foreign, NULL),
    FULL("marks-foreign", marks_foreign, NULL),
    FULL("counts-too-many", counts_too_many, NULL),
};

#define SETS(function, member, value)                                                             \
    static void function(void *state, const narrows_ack *ack, narrows_sending *sending)           \
    {                                                                                             \
        (void)state, (void)ack;                                                                   \
        sending->member = value;                                                                  \
    }

SETS(nan_window, cwnd, NAN)
SETS(no_window, cwnd, 0.5)
SETS(negative_window, cwnd, -3)
SETS(huge_window, cwnd, 1e300)
SETS(nan_threshold, ssthresh, NAN)
SETS(no_threshold, ssthresh, 0)
SETS(nan_rate, pacing_rate, NAN)
SETS(no_rate, pacing_rate, 0)
SETS(negative_rate, pacing_rate, -INFINITY)
SETS(slow_rate, pacing_rate, 1)
SETS(fast_rate, pacing_rate, 1e16)

static const narrows_control controls[] = {
    { .name = "refuse", .create = refuse, .destroy = free, .on_ack = nan_window },
    { .name = "nan-window", .create = create, .destroy = free, .on_ack = nan_window },
    { .name = "no-window", .create = create, .destroy = free, .grow = no_window },
    { .name = "negative-window", .create = create, .destroy = free, .on_loss = negative_window },
    { .name = "huge-window", .create = create, .destroy = free, .on_start = huge_window },
    { .name = "nan-threshold", .create = create, .destroy = free, .on_timeout = nan_threshold },
    { .name = "no-threshold", .create = create, .destroy = free, .on_ecn = no_threshold },
    { .name = "nan-rate", .create = create, .destroy = free, .on_undo = nan_rate },
    { .name = "no-rate", .create = create, .destroy = free, .owns_window = 1, .on_ack = no_rate },
    { .name = "negative-rate", .create = create, .destroy = free, .on_restart = negative_rate },
    { .name = "slow-rate", .create = create, .destroy = free, .on_ack = slow_rate },
    { .name = "fast-rate", .create = create, .destroy = free, .on_ack = fast_rate },
};

const narrows_offer *narrows_plugin(void)
{
    static const narrows_offer offer = { .abi = NARROWS_ABI,
                                         .queue_size = sizeof queues[0],
                                         .queues = queues,
                                         .queues_count = sizeof queues / sizeof queues[0],
                                         .control_size = sizeof controls[0],
                                         .controls = controls,
                                         .controls_count = sizeof controls / sizeof controls[0] };
    return &offer;
}

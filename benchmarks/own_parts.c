/* A pfifo of 20 packets in C, in the short and in the full form, for bench_own_parts.py. */
#include <stdlib.h>

#include "narrows.h"

#define LIMIT 20

struct fifo {
    uint64_t handles[LIMIT];
    uint32_t first;
    uint32_t count;
};

static void *create(const narrows_start *start)
{
    (void)start;
    return calloc(1, sizeof(struct fifo));
}

static int admit(void *state, uint32_t backlog, uint64_t bytes, narrows_time now,
                 const narrows_packet *packet)
{
    (void)state, (void)bytes, (void)now, (void)packet;
    return backlog >= LIMIT ? NARROWS_DROP : NARROWS_PASS;
}

static int enqueue(void *state, narrows_time now, const narrows_packet *packet,
                   narrows_actions *actions)
{
    struct fifo *fifo = state;
    (void)now, (void)actions;
    if (fifo->count == LIMIT)
        return NARROWS_DROP;
    fifo->handles[(fifo->first + fifo->count++) % LIMIT] = packet->handle;
    return NARROWS_PASS;
}

static uint64_t dequeue(void *state, narrows_time now, narrows_actions *actions)
{
    struct fifo *fifo = state;
    (void)now, (void)actions;
    if (fifo->count == 0)
        return NARROWS_NONE;
    fifo->count--;
    uint64_t handle = fifo->handles[fifo->first];
    fifo->first = (fifo->first + 1) % LIMIT;
    return handle;
}

static const narrows_queue queues[] = {
    { .name = "short", .create = create, .destroy = free, .admit = admit },
    { .name = "full", .create = create, .destroy = free, .enqueue = enqueue, .dequeue = dequeue },
};

const narrows_offer *narrows_plugin(void)
{
    static const narrows_offer offer = { .abi = NARROWS_ABI,
                                         .queue_size = sizeof queues[0],
                                         .queues = queues,
                                         .queues_count = 2 };
    return &offer;
}

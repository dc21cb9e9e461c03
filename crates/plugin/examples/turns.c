/* Two queues in C, full form. `turns`: the flows, sorted into 16 by their hashes, take turns, a
 * packet each; `limit` packets may wait (1000 by default). `paced`: first in, first out, but a
 * packet leaves at most every `gap` (1 ms by default).
 */
#include <stdlib.h>
#include <string.h>

#include "narrows.h"

#define FLOWS 16

struct entry {
    struct entry *next;
    uint64_t handle;
};

struct list {
    struct entry *first;
    struct entry **last;
};

struct queue {
    struct list flows[FLOWS];
    uint32_t turn;
    uint32_t waiting;
    uint32_t limit;
    narrows_time gap;
    narrows_time next;
};

static struct queue *new_queue(void)
{
    struct queue *queue = calloc(1, sizeof *queue);
    for (int i = 0; i < FLOWS; i++)
        queue->flows[i].last = &queue->flows[i].first;
    queue->limit = 1000;
    queue->gap = NARROWS_MS;
    return queue;
}

static void push(struct queue *queue, uint32_t flow, uint64_t handle)
{
    struct entry *entry = malloc(sizeof *entry);
    *entry = (struct entry){ NULL, handle };
    *queue->flows[flow].last = entry;
    queue->flows[flow].last = &entry->next;
    queue->waiting++;
}

static uint64_t pop(struct queue *queue, uint32_t flow)
{
    struct list *list = &queue->flows[flow];
    struct entry *entry = list->first;
    if (!entry)
        return NARROWS_NONE;
    list->first = entry->next;
    if (!list->first)
        list->last = &list->first;
    uint64_t handle = entry->handle;
    free(entry);
    queue->waiting--;
    return handle;
}

static void destroy(void *state)
{
    struct queue *queue = state;
    for (uint32_t i = 0; i < FLOWS; i++)
        while (pop(queue, i) != NARROWS_NONE)
            ;
    free(queue);
}

static void *create_turns(const narrows_start *start)
{
    struct queue *queue = new_queue();
    for (size_t i = 0; i < start->settings_count; i++)
        if (strcmp(start->settings[i].key, "limit") == 0)
            queue->limit = (uint32_t)start->settings[i].number;
    return queue;
}

static int enqueue_turns(void *state, narrows_time now, const narrows_packet *packet,
                         narrows_actions *actions)
{
    struct queue *queue = state;
    (void)now;
    if (queue->waiting == queue->limit) {
        /* The oldest packet of the next flow makes room. */
        for (uint32_t i = 0; i < FLOWS; i++) {
            uint64_t handle = pop(queue, (queue->turn + i) % FLOWS);
            if (handle != NARROWS_NONE) {
                narrows_drop(actions, handle);
                break;
            }
        }
    }
    push(queue, packet->flow % FLOWS, packet->handle);
    return NARROWS_PASS;
}

static uint64_t dequeue_turns(void *state, narrows_time now, narrows_actions *actions)
{
    struct queue *queue = state;
    (void)now, (void)actions;
    for (int i = 0; i < FLOWS; i++) {
        queue->turn = (queue->turn + 1) % FLOWS;
        uint64_t handle = pop(queue, queue->turn);
        if (handle != NARROWS_NONE)
            return handle;
    }
    return NARROWS_NONE;
}

static void *create_paced(const narrows_start *start)
{
    struct queue *queue = new_queue();
    for (size_t i = 0; i < start->settings_count; i++)
        if (strcmp(start->settings[i].key, "gap") == 0)
            queue->gap = (narrows_time)(start->settings[i].number * 1e12);
    return queue;
}

static int enqueue_paced(void *state, narrows_time now, const narrows_packet *packet,
                         narrows_actions *actions)
{
    (void)now, (void)actions;
    push(state, 0, packet->handle);
    return NARROWS_PASS;
}

static uint64_t dequeue_paced(void *state, narrows_time now, narrows_actions *actions)
{
    struct queue *queue = state;
    (void)actions;
    if (now < queue->next)
        return NARROWS_NONE;
    queue->next = now + queue->gap;
    return pop(queue, 0);
}

static narrows_time ready_at_paced(void *state, narrows_time now)
{
    struct queue *queue = state;
    (void)now;
    return queue->waiting ? queue->next : NARROWS_NEVER;
}

static const narrows_queue queues[] = {
    { .name = "turns",
      .create = create_turns,
      .destroy = destroy,
      .enqueue = enqueue_turns,
      .dequeue = dequeue_turns },
    { .name = "paced",
      .create = create_paced,
      .destroy = destroy,
      .enqueue = enqueue_paced,
      .dequeue = dequeue_paced,
      .ready_at = ready_at_paced },
};

const narrows_offer *narrows_plugin(void)
{
    static const narrows_offer offer = { .abi = NARROWS_ABI,
                                         .queue_size = sizeof queues[0],
                                         .queues = queues,
                                         .queues_count = 2 };
    return &offer;
}

/* CoDel in C, short form, by the pseudocode of RFC 8289, section 5: it decides when a packet could
 * leave. Settings: target (5 ms by default) and interval (100 ms).
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "narrows.h"

struct codel {
    narrows_time target;
    narrows_time interval;
    narrows_time first_above;
    narrows_time drop_next;
    uint32_t count;
    uint32_t last_count;
    bool dropping;
};

static void *create(const narrows_start *start)
{
    struct codel *codel = calloc(1, sizeof *codel);
    codel->target = 5 * NARROWS_MS;
    codel->interval = 100 * NARROWS_MS;
    for (size_t i = 0; i < start->settings_count; i++) {
        const narrows_setting *setting = &start->settings[i];
        bool target = strcmp(setting->key, "target") == 0;
        if ((!target && strcmp(setting->key, "interval") != 0) || !(setting->number > 0)) {
            strncpy(start->error, "has the settings target and interval, times above zero",
                    start->error_length);
            free(codel);
            return NULL;
        }
        *(target ? &codel->target : &codel->interval) = (narrows_time)(setting->number * 1e12);
    }
    return codel;
}

static narrows_time control_law(const struct codel *codel, narrows_time from)
{
    return from + (narrows_time)((double)codel->interval / sqrt(codel->count));
}

/* Whether packets have waited too long for an interval. */
static bool standing(struct codel *codel, uint64_t bytes, narrows_time now,
                     const narrows_packet *packet)
{
    if (now - packet->arrived < codel->target || bytes - packet->bytes <= 1514) {
        codel->first_above = 0;
        return false;
    }
    if (codel->first_above == 0) {
        codel->first_above = now + codel->interval;
        return false;
    }
    return now >= codel->first_above;
}

static int release(void *state, uint32_t backlog, uint64_t bytes, narrows_time now,
                   const narrows_packet *packet)
{
    struct codel *codel = state;
    (void)backlog;
    if (!standing(codel, bytes, now, packet)) {
        codel->dropping = false;
        return NARROWS_PASS;
    }
    if (codel->dropping) {
        if (now < codel->drop_next)
            return NARROWS_PASS;
        codel->count++;
        codel->drop_next = control_law(codel, codel->drop_next);
        return NARROWS_MARK;
    }
    codel->dropping = true;
    uint32_t before = codel->count - codel->last_count;
    bool soon = now < codel->drop_next + 16 * codel->interval;
    codel->count = before > 1 && soon ? before : 1;
    codel->last_count = codel->count;
    codel->drop_next = control_law(codel, now);
    return NARROWS_MARK;
}

static const narrows_queue queues[] = {
    { .name = "codel-rfc8289", .create = create, .destroy = free, .release = release },
};

const narrows_offer *narrows_plugin(void)
{
    static const narrows_offer offer = { .abi = NARROWS_ABI,
                                         .queue_size = sizeof queues[0],
                                         .queues = queues,
                                         .queues_count = 1 };
    return &offer;
}

/* An AQM in C, short form: it drops with a probability that grows with the backlog, from 0 when
 * nothing waits to 1 at `most` packets (a setting, 200 by default).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "narrows.h"

struct slope {
    narrows_random random;
    double most;
};

static void *create(const narrows_start *start)
{
    struct slope *slope = malloc(sizeof *slope);
    slope->random = narrows_random_from(start->seed);
    slope->most = 200;
    for (size_t i = 0; i < start->settings_count; i++) {
        const narrows_setting *setting = &start->settings[i];
        if (strcmp(setting->key, "most") != 0 || !(setting->number >= 1)) {
            strncpy(start->error, "has one setting, most, a number of packets of at least 1",
                    start->error_length);
            free(slope);
            return NULL;
        }
        slope->most = setting->number;
    }
    return slope;
}

static int admit(void *state, uint32_t backlog, uint64_t bytes, narrows_time now,
                 const narrows_packet *packet)
{
    struct slope *slope = state;
    (void)bytes, (void)now, (void)packet;
    return narrows_random_unit(&slope->random) * slope->most < backlog ? NARROWS_MARK
                                                                       : NARROWS_PASS;
}

static const narrows_queue queues[] = {
    { .name = "slope", .create = create, .destroy = free, .limit = 1000, .admit = admit },
};

const narrows_offer *narrows_plugin(void)
{
    static const narrows_offer offer = { .abi = NARROWS_ABI,
                                         .queue_size = sizeof queues[0],
                                         .queues = queues,
                                         .queues_count = 1 };
    return &offer;
}

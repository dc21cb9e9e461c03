/* A congestion control in C: additive increase, multiplicative decrease (Chiu and Jain, 1989).
 *
 * `increase` is by how many segments the window grows in a round trip, and `decrease` what a loss
 * leaves of it. With 1 and 0.5, the defaults, it is Reno (RFC 5681) to the last segment.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "narrows.h"

struct aimd {
    double increase;
    double decrease;
    /* Segments acknowledged towards the next increase. */
    double count;
};

static void *create(const narrows_start *start)
{
    struct aimd *aimd = calloc(1, sizeof *aimd);
    aimd->increase = 1;
    aimd->decrease = 0.5;
    for (size_t i = 0; i < start->settings_count; i++) {
        const narrows_setting *setting = &start->settings[i];
        if (strcmp(setting->key, "increase") == 0 && setting->number > 0) {
            aimd->increase = setting->number;
        } else if (strcmp(setting->key, "decrease") == 0 && setting->number > 0 &&
                   setting->number < 1) {
            aimd->decrease = setting->number;
        } else {
            strncpy(start->error, "has the settings increase, above 0, and decrease, between 0 and 1",
                    start->error_length);
            free(aimd);
            return NULL;
        }
    }
    return aimd;
}

static void grow(void *state, const narrows_ack *ack, narrows_sending *sending)
{
    struct aimd *aimd = state;
    double acked = ack->acked;
    if (sending->cwnd < sending->ssthresh) {
        double grown = fmin(sending->cwnd + acked, sending->ssthresh);
        acked -= grown - sending->cwnd;
        sending->cwnd = grown;
        if (acked == 0) {
            return;
        }
    }
    double for_each = fmax(floor(sending->cwnd / aimd->increase), 1);
    if (aimd->count >= for_each) {
        aimd->count = 0;
        sending->cwnd += 1;
    }
    aimd->count += acked;
    double more = floor(aimd->count / for_each);
    aimd->count -= more * for_each;
    sending->cwnd += more;
}

static void on_loss(void *state, const narrows_ack *ack, narrows_sending *sending)
{
    struct aimd *aimd = state;
    (void)ack;
    aimd->count = 0;
    sending->ssthresh = fmax(floor(sending->cwnd * aimd->decrease), 2);
}

static void on_timeout(void *state, const narrows_ack *ack, narrows_sending *sending)
{
    (void)ack, (void)sending;
    ((struct aimd *)state)->count = 0;
}

static const narrows_control controls[] = {
    { .name = "aimd",
      .create = create,
      .destroy = free,
      .grow = grow,
      .on_loss = on_loss,
      .on_timeout = on_timeout },
};

const narrows_offer *narrows_plugin(void)
{
    static const narrows_offer offer = { .abi = NARROWS_ABI,
                                         .control_size = sizeof controls[0],
                                         .controls = controls,
                                         .controls_count = 1 };
    return &offer;
}

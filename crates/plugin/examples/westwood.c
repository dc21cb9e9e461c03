/* TCP Westwood+ in C: after a loss, the window falls to what the path has delivered in its shortest
 * round trip, and not to half.
 *
 * Source: L. Grieco and S. Mascolo, "Performance evaluation and comparison of Westwood+, New Reno and
 * Vegas TCP congestion control", ACM CCR 34(2), 2004, section 2: the bandwidth is what was
 * acknowledged in a round trip, smoothed with 7/8; ssthresh is the bandwidth times the shortest round
 * trip. Everything else is Reno's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "narrows.h"

struct westwood {
    /* Segments per second; 0 before the first round trip. */
    double bandwidth;
    narrows_time since;
    uint32_t delivered;
    narrows_time shortest;
};

static void *create(const narrows_start *start)
{
    if (start->settings_count > 0) {
        strncpy(start->error, "has no settings", start->error_length);
        return NULL;
    }
    struct westwood *westwood = calloc(1, sizeof *westwood);
    westwood->since = NARROWS_NEVER;
    return westwood;
}

static void on_ack(void *state, const narrows_ack *ack, narrows_sending *sending)
{
    struct westwood *westwood = state;
    (void)sending;
    westwood->shortest = ack->shortest_rtt;
    if (westwood->since == NARROWS_NEVER) {
        westwood->since = ack->now;
        westwood->delivered = ack->delivered;
    }
    narrows_time took = ack->now - westwood->since;
    if (ack->smoothed_rtt == NARROWS_NEVER || took < ack->smoothed_rtt || took == 0) {
        return;
    }
    double sample = (ack->delivered - westwood->delivered) / (double)took * NARROWS_S;
    westwood->bandwidth =
        westwood->bandwidth == 0 ? sample : 7.0 / 8 * westwood->bandwidth + sample / 8;
    westwood->since = ack->now;
    westwood->delivered = ack->delivered;
}

static void on_loss(void *state, const narrows_ack *ack, narrows_sending *sending)
{
    const struct westwood *westwood = state;
    (void)ack;
    double fits = sending->cwnd / 2;
    if (westwood->bandwidth > 0 && westwood->shortest != NARROWS_NEVER) {
        fits = westwood->bandwidth * westwood->shortest / NARROWS_S;
    }
    sending->ssthresh = fmax(fmin(fits, sending->cwnd), 2);
}

static const narrows_control controls[] = {
    { .name = "westwood", .create = create, .destroy = free, .on_ack = on_ack, .on_loss = on_loss },
};

const narrows_offer *narrows_plugin(void)
{
    static const narrows_offer offer = { .abi = NARROWS_ABI,
                                         .control_size = sizeof controls[0],
                                         .controls = controls,
                                         .controls_count = 1 };
    return &offer;
}

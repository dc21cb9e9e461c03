/* What a caller may do wrong: each call gives an error or a line, and nothing breaks. */
#include <narrows_link.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int released;

static void release(void *payload)
{
    released++;
    free(payload);
}

#define MUST(holds)                                                                              \
    do {                                                                                         \
        if (!(holds)) {                                                                          \
            printf("line %d: %s\n", __LINE__, #holds);                                           \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

static narrows_link_config sound(void)
{
    narrows_link_config config = { .abi = NARROWS_LINK_ABI, .rate = 8e6, .delay = 0.01 };
    config.release = release;
    return config;
}

static void refused(narrows_link_config config, const char *begins)
{
    char why[300] = "";
    narrows_link *link = narrows_link_new(&config, why, sizeof why);
    if (link != NULL || strncmp(why, begins, strlen(begins)) != 0) {
        printf("expected %s, got %s\n", begins, why);
        exit(1);
    }
}

#define REFUSED(member, value, begins)                                                           \
    do {                                                                                         \
        narrows_link_config config = sound();                                                    \
        config.member = value;                                                                   \
        refused(config, begins);                                                                 \
    } while (0)

static narrows_link_packet packet(uint32_t bytes)
{
    narrows_link_packet made = { .bytes = bytes };
    made.payload = malloc(8);
    return made;
}

static void settings(void)
{
    char why[8] = "xxxxxxx";
    narrows_link_config config = sound();

    REFUSED(abi, 2, "abi: is 2, and this library has 1");
    REFUSED(rate, NAN, "rate: must be from 1 to 8e12 bit/s");
    REFUSED(rate, 0, "rate: must be from 1");
    REFUSED(rate, -5, "rate: must be from 1");
    REFUSED(rate, INFINITY, "rate: must be from 1");
    REFUSED(delay, NAN, "delay: must be from 0 to 3600 s");
    REFUSED(delay, -1, "delay: must be");
    REFUSED(delay, 1e300, "delay: must be");
    REFUSED(jitter, NAN, "jitter: must be from 0");
    REFUSED(jitter, 100, "jitter.deviation: ");
    REFUSED(loss, NAN, "loss: must be from 0 to 1");
    REFUSED(loss, 1.1, "loss: must be from 0 to 1");
    REFUSED(turns_bad, -0.1, "turns_bad: must be");
    REFUSED(frame_overhead, 100000, "framing.overhead: ");
    REFUSED(queue, "fifo", "queue: there is no \"fifo\"");
    REFUSED(queue, "\xff", "queue: is not UTF-8");
    REFUSED(queue, "codel limit=0", "queue.limit: must be above zero");
    REFUSED(mahimahi, "1\n2\n", "rate: excludes a trace");
    config.rate = 0;
    config.mahimahi = "3\n1\n";
    refused(config, "mahimahi: line 2 goes back in time");
    config.rates = "0,1\n";
    refused(config, "rates: excludes mahimahi");
    config.mahimahi = NULL;
    config.rates = "0,1\n5,x\n";
    refused(config, "rates: line 2 does not hold two numbers");
    config = sound();
    config.loss = 0.1;
    config.turns_bad = 0.1;
    refused(config, "loss: excludes turns_bad");

    /* The line is cut where its room ends, and there may be none. */
    MUST(narrows_link_new(NULL, why, sizeof why) == NULL);
    MUST(strcmp(why, "config:") == 0);
    MUST(narrows_link_new(NULL, why, 0) == NULL);
    MUST(narrows_link_new(NULL, NULL, 10) == NULL);
}

static void calls(void)
{
    narrows_link_config config = sound();
    narrows_link *link;
    narrows_link_outcome out;
    narrows_link_counters counters;
    narrows_link_packet burst[3];
    uint64_t packets, bytes;
    int left;

    config.queue = "pfifo limit=2";
    link = narrows_link_new(&config, NULL, 0);
    MUST(link != NULL);

    /* Null pointers. */
    MUST(narrows_link_push(NULL, 0, burst, 1) == NARROWS_LINK_ARGUMENT);
    MUST(narrows_link_push(link, 0, NULL, 1) == NARROWS_LINK_ARGUMENT);
    MUST(narrows_link_push(link, 0, NULL, 0) == 0);
    MUST(narrows_link_pop(NULL, 0, &out) == NARROWS_LINK_ARGUMENT);
    MUST(narrows_link_pop(link, 0, NULL) == NARROWS_LINK_ARGUMENT);
    MUST(narrows_link_count(NULL, &counters) == NARROWS_LINK_ARGUMENT);
    MUST(narrows_link_count(link, NULL) == NARROWS_LINK_ARGUMENT);
    MUST(narrows_link_backlog(NULL, 0, &packets, &bytes) == NARROWS_LINK_ARGUMENT);
    MUST(narrows_link_next_at(NULL) == NARROWS_LINK_NEVER);
    narrows_link_free(NULL);

    /* An empty link. */
    MUST(narrows_link_next_at(link) == NARROWS_LINK_NEVER);
    MUST(narrows_link_pop(link, 5000, &out) == 0);

    /* One wrong packet of a burst: none is taken, and none released. */
    for (left = 0; left < 3; left++) {
        burst[left] = packet(1000);
    }
    MUST(narrows_link_push(link, 4999, burst, 3) == NARROWS_LINK_PAST);
    MUST(narrows_link_push(link, NARROWS_LINK_NEVER, burst, 3) == NARROWS_LINK_TOO_LATE);
    burst[2].bytes = 0;
    MUST(narrows_link_push(link, 5000, burst, 3) == NARROWS_LINK_LENGTH);
    burst[2].bytes = 65536;
    MUST(narrows_link_push(link, 5000, burst, 3) == NARROWS_LINK_LENGTH);
    burst[2].bytes = 1000;
    burst[2].dscp = 64;
    MUST(narrows_link_push(link, 5000, burst, 3) == NARROWS_LINK_CODE_POINT);
    burst[2].dscp = 0;
    burst[2].ecn = 4;
    MUST(narrows_link_push(link, 5000, burst, 3) == NARROWS_LINK_ARGUMENT);
    burst[2].ecn = 0;
    burst[2].protocol = 3;
    MUST(narrows_link_push(link, 5000, burst, 3) == NARROWS_LINK_ARGUMENT);
    burst[2].protocol = 0;
    MUST(narrows_link_count(link, &counters) == 0 && counters.pushed == 0 && released == 0);

    /* The fourth finds no room, and goes through release. */
    MUST(narrows_link_push(link, 5000, burst, 3) == 0);
    burst[0] = packet(1000);
    MUST(narrows_link_push(link, 5000, burst, 1) == 0);
    MUST(released == 1);
    MUST(narrows_link_backlog(link, 5000, &packets, &bytes) == 0);
    MUST(packets == 2 && bytes == 2000);
    MUST(narrows_link_backlog(link, 5000, NULL, NULL) == 0);

    /* One arrives, at 5 us + 1 ms + 10 ms; freeing the link releases the others. */
    MUST(narrows_link_next_at(link) == 11005000);
    MUST(narrows_link_pop(link, 11004999, &out) == 0);
    MUST(narrows_link_pop(link, 11005000, &out) == 1);
    MUST(out.fate == NARROWS_LINK_ARRIVED && out.at == 11005000 && out.pushed_at == 5000);
    free(out.packet.payload);
    MUST(narrows_link_count(link, &counters) == 0);
    MUST(counters.pushed == 4 && counters.arrived == 1 && counters.dropped_full == 1);
    narrows_link_free(link);
    MUST(released == 3);
    MUST(strcmp(narrows_link_error(NARROWS_LINK_LENGTH), "a packet has 1 to 65535 bytes") == 0);
    MUST(strcmp(narrows_link_error(77), "no error") == 0);
}

/* With reports_losses, every payload comes back, and nothing is released. */
static void reports(void)
{
    narrows_link_config config = sound();
    narrows_link *link;
    narrows_link_outcome out;
    int fates[5] = { 0 }, number;

    config.queue = "red limit=60000 min=10000 max=20000 probability=0.5 avpkt=1000 burst=14";
    config.turns_bad = 0.1;
    config.turns_good = 0.5;
    config.jitter = 0.005;
    config.reports_losses = 1;
    config.seed = 7;
    link = narrows_link_new(&config, NULL, 0);
    MUST(link != NULL);
    released = 0;
    for (number = 0; number < 2000; number++) {
        narrows_link_packet sent = packet(1000);
        MUST(narrows_link_push(link, 700000ull * (uint64_t)number, &sent, 1) == 0);
    }
    while (narrows_link_pop(link, NARROWS_LINK_NEVER, &out) == 1) {
        fates[out.fate]++;
        free(out.packet.payload);
    }
    narrows_link_free(link);
    MUST(released == 0);
    MUST(fates[NARROWS_LINK_ARRIVED] > 500 && fates[NARROWS_LINK_LOST] > 50);
    MUST(fates[NARROWS_LINK_DROPPED_EARLY] > 50);
    MUST(fates[0] + fates[1] + fates[2] + fates[3] + fates[4] == 2000);
}

int main(void)
{
    settings();
    calls();
    reports();
    puts("nothing broke");
    return 0;
}

/* A sender and a receiver in a loop over two links, in virtual time: the kind of loop that tests of
 * stacks in C have, such as picoquic's with its sim_link.c. Prints goodput and delay for a matrix of
 * rates, round-trip times and queues.
 *
 *     cargo build --release -p narrows-link-c
 *     cc -O2 -I../include loop.c ../../../target/release/libnarrowslink.a -lm -lpthread -ldl
 *     ./a.out
 *
 * The sender is as small as one can be that shares a bottleneck: a window that opens by a packet for
 * each acknowledged one, and by one each round trip after the first sign of congestion. A mark or a
 * packet that is missing halves it, once each round trip. Put your stack in its place.
 */
#include <narrows_link.h>

#include <stdio.h>
#include <stdlib.h>

#define MS 1000000ull
#define END (10000 * MS)
#define BYTES 1500
#define MOST 100000

struct sender {
    double window, threshold;
    uint64_t next, acked, recovered;
    uint64_t inflight;
    uint64_t timeout, rto;
};

struct receiver {
    uint64_t packets, expected;
    uint64_t count;
    uint64_t delays[MOST];
};

/* An acknowledgement: the number of the packet, and whether it came with a mark. */
struct note {
    uint64_t number;
    int marked;
};

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void must(int result)
{
    if (result < 0) {
        fail(narrows_link_error(result));
    }
}

static narrows_link *make(double rate, uint64_t rtt_ms, const char *queue, uint64_t seed)
{
    char why[200];
    narrows_link_config config = { .abi = NARROWS_LINK_ABI, .rate = rate };
    narrows_link *link;
    config.delay = (double)rtt_ms / 2 / 1000;
    config.queue = queue;
    config.seed = seed;
    config.release = free;
    link = narrows_link_new(&config, why, sizeof why);
    if (link == NULL) {
        fail(why);
    }
    return link;
}

static void put(narrows_link *link, uint64_t now, uint32_t bytes, int ecn, struct note content)
{
    narrows_link_packet packet = { .flow = 1, .bytes = bytes };
    struct note *note = malloc(sizeof *note);
    if (note == NULL) {
        fail("no memory");
    }
    *note = content;
    packet.payload = note;
    packet.ecn = (uint8_t)ecn;
    must(narrows_link_push(link, now, &packet, 1));
}

static void send_more(struct sender *sender, narrows_link *there, uint64_t now)
{
    while (sender->inflight < (uint64_t)sender->window) {
        put(there, now, BYTES, NARROWS_LINK_ECT0, (struct note){ sender->next, 0 });
        sender->next++;
        sender->inflight++;
        sender->timeout = now + sender->rto;
    }
}

static void slow_down(struct sender *sender, uint64_t number)
{
    if (number >= sender->recovered) {
        sender->threshold = sender->window / 2 < 2 ? 2 : sender->window / 2;
        sender->window = sender->threshold;
        sender->recovered = sender->next;
    }
}

static void take_ack(struct sender *sender, struct note ack)
{
    uint64_t missing = ack.number - sender->acked;
    /* This wire keeps the order, so what is left out is lost. */
    sender->inflight -= missing + 1;
    sender->acked = ack.number + 1;
    if (missing > 0 || ack.marked) {
        slow_down(sender, ack.number);
    } else if (sender->window < sender->threshold) {
        sender->window += 1;
    } else {
        sender->window += 1 / sender->window;
    }
}

static int by_size(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static void run(double rate, uint64_t rtt_ms, const char *queue)
{
    static struct receiver receiver;
    struct sender sender = { .window = 10, .threshold = 1e9, .rto = 3000 * MS };
    narrows_link *there = make(rate, rtt_ms, queue, 1), *back = make(rate, rtt_ms, NULL, 2);
    narrows_link_outcome out;
    narrows_link_counters counters;
    uint64_t now = 0;

    receiver.packets = receiver.expected = receiver.count = 0;
    send_more(&sender, there, now);
    for (;;) {
        /* Whatever is due next: a packet on either link, or a timer. */
        uint64_t data_at = narrows_link_next_at(there), ack_at = narrows_link_next_at(back);
        uint64_t next = data_at < ack_at ? data_at : ack_at;
        next = sender.timeout < next ? sender.timeout : next;
        if (next >= END) {
            break;
        }
        now = next;
        while (narrows_link_pop(there, now, &out) > 0) {
            struct note *note = out.packet.payload;
            int marked = out.packet.ecn == NARROWS_LINK_CE;
            if (receiver.count < MOST) {
                receiver.delays[receiver.count++] = out.at - out.pushed_at - rtt_ms * MS / 2;
            }
            receiver.packets++;
            put(back, now, 40, NARROWS_LINK_NOT_ECT, (struct note){ note->number, marked });
            free(note);
        }
        while (narrows_link_pop(back, now, &out) > 0) {
            take_ack(&sender, *(struct note *)out.packet.payload);
            free(out.packet.payload);
            sender.timeout = now + sender.rto;
        }
        if (now >= sender.timeout) {
            /* Everything that was under way is lost. */
            sender.inflight = 0;
            sender.acked = sender.next;
            slow_down(&sender, sender.next);
            sender.timeout = now + sender.rto;
        }
        send_more(&sender, there, now);
    }
    must(narrows_link_count(there, &counters));
    qsort(receiver.delays, receiver.count, sizeof receiver.delays[0], by_size);
    printf("| %.0f Mbit/s | %d ms | %s | %.0f %% | %.1f ms | %.1f ms | %d | %d |\n", rate / 1e6,
           (int)rtt_ms, queue, (double)receiver.packets * BYTES * 8 / (rate * END / 1e9) * 100,
           (double)receiver.delays[receiver.count / 2] / MS,
           (double)receiver.delays[receiver.count * 95 / 100] / MS, (int)counters.marked,
           (int)(counters.dropped_full + counters.dropped_early + counters.dropped_forced));
    /* What is still on the links goes through config.release. */
    narrows_link_free(there);
    narrows_link_free(back);
}

int main(void)
{
    static const char *const queues[] = { "pfifo limit=100", "codel ecn=true", "pie ecn=true" };
    static const double rates[] = { 2e6, 20e6 };
    static const uint64_t rtts[] = { 20, 100 };
    size_t rate, rtt, queue;

    puts("| rate | round trip | queue | goodput | delay p50 | delay p95 | marked | dropped |");
    puts("|---|---|---|---|---|---|---|---|");
    for (rate = 0; rate < 2; rate++) {
        for (rtt = 0; rtt < 2; rtt++) {
            for (queue = 0; queue < 3; queue++) {
                run(rates[rate], rtts[rtt], queues[queue]);
            }
        }
    }
    return 0;
}

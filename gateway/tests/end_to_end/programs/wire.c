/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A wire between two interfaces that loses, doubles, delays and reorders TCP segments, at random
 * from a seed or by their number. Everything else (neighbour discovery, UDP) passes at once.
 *
 * The last byte of the client's address gives a packet's class. Each class has its own settings
 * and, in each direction, its own random numbers, so that classes do not influence each other.
 *
 * The wire completes checksums that a sender left to its network card, so that the receiver gets
 * what a line would carry.
 *
 * Commands are lines on stdin; each is answered with one line:
 *   set CLASS SEED LOSS DOUBLE REORDER DELAY REORDER_DELAY
 *                                 chances in 1/10000, delays in us; counters start anew
 *   drop CLASS DIRECTION NUMBER   loses that segment (from 1) from the client (0) or to it (1),
 *                                 counted since `set`
 *   count CLASS                   prints the segments from and to the client, and those lost,
 *                                 doubled, reordered
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME 65600
#define CLASSES 256

struct class {
	unsigned loss, doubled, reorder;
	uint64_t delay_ns, reorder_ns;
	uint64_t random[2];
	unsigned long drop[2], seen[2], lost, twice, late;
};

struct waiting {
	struct waiting *next;
	uint64_t due;
	int to;
	size_t length;
	unsigned char bytes[];
};

static struct class classes[CLASSES];
static struct waiting *queue;
static int sockets[2];

static void fail(const char *what)
{
	fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000ull + at.tv_nsec;
}

/* splitmix64: S. Vigna, public domain algorithm. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static int chance(uint64_t *state, unsigned share)
{
	return draw(state) % 10000 < share;
}

/* The class of a TCP segment over IPv4 or IPv6 without extension headers; -1 for anything else. */
static int class_of(const unsigned char *frame, size_t length, int from)
{
	if (length >= 54 && frame[12] == 0x08 && frame[13] == 0x00 && frame[23] == IPPROTO_TCP)
		return frame[from == 0 ? 29 : 33];
	if (length >= 74 && frame[12] == 0x86 && frame[13] == 0xdd && frame[20] == IPPROTO_TCP)
		return frame[from == 0 ? 37 : 53];
	return -1;
}

static void complete(unsigned char *frame, size_t length, struct virtio_net_hdr *header)
{
	if (header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) {
		uint64_t sum = 0;
		size_t start = header->csum_start, at = start + header->csum_offset;
		for (size_t i = start; i < length; i += 2)
			sum += frame[i] << 8 | (i + 1 < length ? frame[i + 1] : 0);
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		sum = ~sum & 0xffff;
		if (sum == 0)
			sum = 0xffff; /* in UDP, zero means that there is none */
		if (at + 2 <= length) {
			frame[at] = sum >> 8;
			frame[at + 1] = sum;
		}
	}
	memset(header, 0, sizeof(*header));
}

static void put(int to, const unsigned char *bytes, size_t length)
{
	if (send(sockets[to], bytes, length, 0) < 0 && errno != ENOBUFS && errno != EAGAIN)
		fail("send");
}

static void later(int to, const unsigned char *bytes, size_t length, uint64_t due)
{
	struct waiting *packet = malloc(sizeof(*packet) + length), **at = &queue;
	if (!packet)
		fail("malloc");
	*packet = (struct waiting){.due = due, .to = to, .length = length};
	memcpy(packet->bytes, bytes, length);
	while (*at && (*at)->due <= due)
		at = &(*at)->next;
	packet->next = *at;
	*at = packet;
}

static void carry(int from)
{
	static unsigned char buffer[sizeof(struct virtio_net_hdr) + FRAME];
	struct virtio_net_hdr *header = (void *)buffer;
	unsigned char *frame = buffer + sizeof(*header);
	ssize_t got = recv(sockets[from], buffer, sizeof(buffer), 0);
	if (got < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ENETDOWN)
			return;
		fail("recv");
	}
	if ((size_t)got < sizeof(*header) + 14)
		return;
	size_t length = got - sizeof(*header);
	complete(frame, length, header);

	int to = !from, which = class_of(frame, length, from);
	if (which < 0) {
		put(to, buffer, got);
		return;
	}
	struct class *class = &classes[which];
	uint64_t *random = &class->random[from], at = now() + class->delay_ns;
	/* Every number is drawn for every segment, so one setting does not shift another's numbers. */
	int lose = chance(random, class->loss), twice = chance(random, class->doubled);
	int late = chance(random, class->reorder);
	if (++class->seen[from] == class->drop[from] || lose) {
		class->lost++;
		return;
	}
	if (late) {
		class->late++;
		at += class->reorder_ns;
	}
	for (int copies = 1 + twice; copies; copies--) {
		if (class->delay_ns || late)
			later(to, buffer, got, at);
		else
			put(to, buffer, got);
	}
	class->twice += twice;
}

static void command(char *line)
{
	unsigned which, loss, doubled, reorder, direction;
	unsigned long long seed, delay, reorder_delay;
	unsigned long number;
	if (sscanf(line, "set %u %llu %u %u %u %llu %llu", &which, &seed, &loss, &doubled, &reorder, &delay,
		   &reorder_delay) == 7 && which < CLASSES) {
		classes[which] = (struct class){
			.loss = loss, .doubled = doubled, .reorder = reorder,
			.delay_ns = delay * 1000, .reorder_ns = reorder_delay * 1000,
			.random = {seed, ~seed},
		};
		puts("set");
	} else if (sscanf(line, "drop %u %u %lu", &which, &direction, &number) == 3 && which < CLASSES && direction < 2) {
		classes[which].drop[direction] = number;
		puts("drop");
	} else if (sscanf(line, "count %u", &which) == 1 && which < CLASSES) {
		struct class *class = &classes[which];
		printf("%lu %lu %lu %lu %lu\n", class->seen[0], class->seen[1], class->lost, class->twice, class->late);
	} else {
		puts("error");
	}
	fflush(stdout);
}

static int open_link(const char *name)
{
	int on = 1, room = 8 << 20, link = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
	struct sockaddr_ll where = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	struct packet_mreq promiscuous = {.mr_type = PACKET_MR_PROMISC};
	if (link < 0)
		fail("socket");
	where.sll_ifindex = promiscuous.mr_ifindex = if_nametoindex(name);
	if (!where.sll_ifindex)
		fail(name);
	if (setsockopt(link, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
	    setsockopt(link, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) ||
	    setsockopt(link, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof(promiscuous)) ||
	    setsockopt(link, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	    setsockopt(link, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) ||
	    bind(link, (void *)&where, sizeof(where)))
		fail(name);
	return link;
}

int main(int argc, char **argv)
{
	char line[256];
	size_t have = 0;
	if (argc != 3) {
		fputs("usage: wire INTERFACE-AT-CLIENT INTERFACE-AT-SERVER\n", stderr);
		return 2;
	}
	for (int i = 0; i < 2; i++)
		sockets[i] = open_link(argv[1 + i]);
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct pollfd ready[3] = {{sockets[0], POLLIN, 0}, {sockets[1], POLLIN, 0}, {0, POLLIN, 0}};
		struct timespec wait, *until = NULL;
		if (queue) {
			uint64_t at = now(), left = queue->due > at ? queue->due - at : 0;
			wait = (struct timespec){left / 1000000000, left % 1000000000};
			until = &wait;
		}
		if (ppoll(ready, 3, until, NULL) < 0 && errno != EINTR)
			fail("poll");
		for (struct waiting *first; (first = queue) && first->due <= now();) {
			queue = first->next;
			put(first->to, first->bytes, first->length);
			free(first);
		}
		for (int i = 0; i < 2; i++)
			if (ready[i].revents)
				carry(i);
		if (ready[2].revents) {
			ssize_t got = read(0, line + have, 1);
			if (got <= 0)
				return 0; /* our parent has gone */
			if (line[have] == '\n' || have == sizeof(line) - 2) {
				line[have + 1] = 0;
				command(line);
				have = 0;
			} else {
				have++;
			}
		}
	}
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Sends many TCP segments from made-up addresses, limited in time and number; prints how many it
 * sent.
 *
 *   flood KIND INTERFACE CLIENT-MAC SERVER-MAC SERVER-IPV4 NUMBER SECONDS RATE SEED
 *
 *   syn    SYNs from 198.18.0.0/15, any port
 *   ack    pure ACKs with random numbers, from the same
 *   query  segments with a whole query and random numbers (QUERY in the environment is its name, in
 *          wire format and hexadecimal)
 *   open   opens connections: a SYN, and an ACK for every second SYN/ACK; the others stay
 *          half-open; also prints the number of SYN/ACKs
 *
 * RATE is in segments per second; 0 means as many as possible.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64
#define FRAME 600
enum { SYN = 2, PSH = 8, ACK = 16 };

static unsigned char client_mac[6], server_mac[6], server[4], payload[512];
static size_t payload_length;
static uint64_t state;

static void fail(const char *what)
{
	fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

static uint64_t draw(void) /* splitmix64 */
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void bytes_of(const char *text, unsigned char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned value;
		while (*text == ':')
			text++;
		if (sscanf(text, "%2x", &value) != 1) {
			fprintf(stderr, "flood: %s: not hexadecimal\n", text);
			exit(2);
		}
		bytes[i] = value;
		text += 2;
	}
}

static uint32_t add(uint32_t sum, const void *data, size_t length)
{
	const unsigned char *bytes = data;
	for (size_t i = 0; i < length; i += 2)
		sum += bytes[i] << 8 | (i + 1 < length ? bytes[i + 1] : 0);
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

struct packet {
	struct ethhdr ether;
	unsigned char ip[20];
	unsigned char tcp[24];
} __attribute__((packed));

/* Writes a segment, and returns its length. */
static size_t segment(unsigned char *at, uint32_t source, uint16_t port, uint32_t seq, uint32_t ack, int flags,
		      size_t data)
{
	struct packet *packet = (void *)at;
	size_t header = flags & SYN ? 24 : 20, tcp = header + data, total = 20 + tcp;
	unsigned char *ip = packet->ip, *t = packet->tcp;
	memcpy(packet->ether.h_dest, server_mac, 6);
	memcpy(packet->ether.h_source, client_mac, 6);
	packet->ether.h_proto = htons(ETH_P_IP);
	memset(ip, 0, 20);
	ip[0] = 0x45;
	ip[2] = total >> 8;
	ip[3] = total;
	ip[6] = 0x40;
	ip[8] = 64;
	ip[9] = IPPROTO_TCP;
	*(uint32_t *)(ip + 12) = htonl(source);
	memcpy(ip + 16, server, 4);
	*(uint16_t *)(ip + 10) = fold(add(0, ip, 20));
	memset(t, 0, header);
	*(uint16_t *)t = htons(port);
	t[3] = 53;
	*(uint32_t *)(t + 4) = htonl(seq);
	*(uint32_t *)(t + 8) = htonl(ack);
	t[12] = header / 4 << 4;
	t[13] = flags;
	t[14] = t[15] = 0xff;
	if (flags & SYN)
		memcpy(t + 20, "\x02\x04\x05\xb4", 4);
	memcpy(t + header, payload, data);
	uint32_t sum = add(0, ip + 12, 8) + IPPROTO_TCP + tcp;
	*(uint16_t *)(t + 16) = fold(add(sum, t, tcp));
	return 14 + total;
}

/* Long: the fields of a packet, one after the other. */
int main(int argc, char **argv)
{
	if (argc != 10) {
		fputs("usage: flood KIND INTERFACE CLIENT-MAC SERVER-MAC SERVER NUMBER SECONDS RATE SEED\n", stderr);
		return 2;
	}
	const char *kind = argv[1], *name = getenv("QUERY");
	bytes_of(argv[3], client_mac, 6);
	bytes_of(argv[4], server_mac, 6);
	if (inet_pton(AF_INET, argv[5], server) != 1)
		fail(argv[5]);
	long number = atol(argv[6]);
	double seconds = atof(argv[7]), rate = atof(argv[8]);
	state = strtoull(argv[9], NULL, 0);
	int opens = !strcmp(kind, "open");
	if (!strcmp(kind, "query") && name) {
		payload_length = strlen(name) / 2;
		if (payload_length > sizeof(payload))
			return 2;
		bytes_of(name, payload, payload_length);
	}

	int one = 1, room = 8 << 20, out = socket(AF_PACKET, SOCK_RAW, 0);
	struct sockaddr_ll where = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(argv[2])};
	if (out < 0 || !where.sll_ifindex)
		fail(argv[2]);
	if (opens) {
		where.sll_protocol = htons(ETH_P_IP);
		setsockopt(out, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
		setsockopt(out, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	}
	setsockopt(out, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	if (bind(out, (void *)&where, sizeof(where)))
		fail("bind");

	static unsigned char frames[BATCH][FRAME], in[2048];
	struct iovec parts[BATCH];
	struct mmsghdr messages[BATCH];
	long sent = 0, answers = 0, acked = 0;
	double begin = now();
	while (sent < number && now() - begin < seconds) {
		int count = BATCH;
		if (number - sent < count)
			count = number - sent;
		for (int i = 0; i < count; i++) {
			uint64_t r = draw(), q = draw();
			uint32_t source = 0xc6120000u | (r & 0x1ffff);
			uint16_t port = 1024 + (r >> 17) % 60000;
			size_t length;
			if (opens) { /* each address and port once */
				source = 0xc6130000u | (uint32_t)((sent + i) / 2000);
				port = 2000 + (sent + i) % 2000;
			}
			if (opens || !strcmp(kind, "syn"))
				length = segment(frames[i], source, port, (uint32_t)q, 0, SYN, 0);
			else if (payload_length)
				length = segment(frames[i], source, port, (uint32_t)q, q >> 32, ACK | PSH, payload_length);
			else
				length = segment(frames[i], source, port, (uint32_t)q, q >> 32, ACK, 0);
			parts[i] = (struct iovec){frames[i], length};
			messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1}};
		}
		int gone = sendmmsg(out, messages, count, 0);
		if (gone < 0) {
			if (errno == ENOBUFS || errno == EAGAIN)
				continue;
			fail("sendmmsg");
		}
		sent += gone;
		if (rate > 0)
			while (now() - begin < sent / rate)
				usleep(100);
		/* Answers are read after each batch, and for half a second after the last. */
		double last = now();
		for (int quiet = 0; opens && !quiet;) {
			ssize_t got = recv(out, in, sizeof(in), MSG_DONTWAIT);
			if (got < 0) {
				quiet = sent < number || now() - last > 0.5;
				if (!quiet)
					usleep(1000);
				continue;
			}
			last = now();
			struct packet *packet = (void *)in;
			if (got < 54 || packet->ip[0] != 0x45 || packet->ip[9] != IPPROTO_TCP || packet->tcp[13] != (SYN | ACK))
				continue;
			if (++answers % 2)
				continue;
			uint32_t source = ntohl(*(uint32_t *)(packet->ip + 16));
			uint32_t seq = ntohl(*(uint32_t *)(packet->tcp + 8)), ack = ntohl(*(uint32_t *)(packet->tcp + 4));
			uint16_t port = ntohs(*(uint16_t *)(packet->tcp + 2));
			size_t length = segment(frames[0], source, port, seq, ack + 1, ACK, 0);
			if (send(out, frames[0], length, 0) < 0 && errno != ENOBUFS)
				fail("send");
			acked++;
		}
	}
	printf("{\"sent\": %ld, \"seconds\": %.3f, \"answers\": %ld, \"acknowledged\": %ld}\n", sent, now() - begin,
	       answers, acked);
	return 0;
}

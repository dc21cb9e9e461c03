/* Looks names up with getaddrinfo(), IPv4 alone unless it is told "both", as a program would: one
 * after the other, or with "together" in a thread each. Says for each name: name, return code, and
 * the monotonic clock's seconds when asked and when answered. */
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int family = AF_INET;

static void *look_up(void *name) {
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *found;
    double asked = seconds();
    int code = getaddrinfo(name, NULL, &hints, &found);
    printf("%s %d %.6f %.6f\n", (char *)name, code, asked, seconds());
    fflush(stdout);
    if (code == 0)
        freeaddrinfo(found);
    return NULL;
}

int main(int count, char **words) {
    int together = count > 1 && strcmp(words[1], "together") == 0;
    if (count > 1 && strcmp(words[1], "both") == 0)
        family = AF_UNSPEC;
    pthread_t threads[64];
    if (count > 64)
        return 2;
    for (int i = 2; i < count; i++) {
        if (together) {
            if (pthread_create(&threads[i], NULL, look_up, words[i]))
                return 1;
        } else {
            if (i > 2)
                usleep(300000);
            look_up(words[i]);
        }
    }
    for (int i = 2; together && i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

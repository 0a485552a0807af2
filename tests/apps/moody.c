/*
 * An app that misbehaves on demand. The destination port of a UDP packet selects how: a crash, an exit, a hang, a
 * leak up to the limit of its memory, a slow leak with every later
 * call, or a crash of a thread of its own.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rosemary_app.h"

enum { CRASH = 7001, ABORT = 7002, EXIT = 7003, HANG = 7004, LEAK = 7005, DRIP = 7006, BOMB = 7007 };

/* What one call leaks once the app drips. */
enum { DROP = 64 * 1024 };

/* Smallest headers of Ethernet, IPv4 and UDP. */
enum { ETHERNET = 14, IPV4 = 20, UDP = 8 };

static const struct rosemary_host *host;
static volatile int forever = 1;
static int *volatile nowhere;
static int drips;

static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}

static void leak(void) {
    static const size_t step = 1 << 20;
    for (;;) {
        char *memory = malloc(step);
        if (memory == NULL)
            abort();
        memset(memory, 1, step);
    }
}

static void *explode(void *unused) {
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    abort();
}

/* Crashes when no call of the app lasts. */
static void bomb(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, explode, NULL) == 0)
        pthread_detach(thread);
}

/* The destination port of a UDP packet over IPv4, or 0. */
static unsigned udp_port(const uint8_t *packet, unsigned size) {
    unsigned header;
    if (size < ETHERNET + IPV4 + UDP || packet[12] != 0x08 || packet[13] != 0x00)
        return 0;
    header = ETHERNET + (packet[ETHERNET] & 0x0fu) * 4;
    if (packet[ETHERNET + 9] != 17 || size < header + UDP)
        return 0;
    return (unsigned)packet[header + 2] << 8 | packet[header + 3];
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    uint32_t number;
    (void)app;
    (void)answer;
    if (drips) {
        char *memory = malloc(DROP);
        if (memory != NULL)
            memset(memory, 1, DROP);
    }
    for (number = 0; number < batch->count; number++) {
        const struct rosemary_record *record = batch->records[number];
        if (record->kind != ROSEMARY_PACKET_IN || (record->flags & ROSEMARY_REPEATED))
            continue;
        switch (udp_port(rosemary_packet(record), record->data_size)) {
        case CRASH:
            *nowhere = 1;
            break;
        case ABORT:
            abort();
        case EXIT:
            exit(3);
        case HANG:
            while (forever) {
            }
            break;
        case LEAK:
            leak();
            break;
        case DRIP:
            drips = 1;
            break;
        case BOMB:
            bomb();
            break;
        default:
            break;
        }
    }
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "moody",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

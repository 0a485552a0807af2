/* A guard that stops no packet. It stops its own process shortly after the first packet from port 3, between two
 * calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "rosemary_app.h"

static const struct rosemary_host *host;

static void *stop(void *nothing) {
    usleep(50000);
    kill(getpid(), SIGSTOP);
    return nothing;
}

static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    static int begun;
    pthread_t thread;
    (void)app;
    (void)answer;
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->records[i]->kind == ROSEMARY_PACKET_IN && batch->records[i]->in_port == 3 && !begun++)
            pthread_create(&thread, 0, stop, 0);
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "stops",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

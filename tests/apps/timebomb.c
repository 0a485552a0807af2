/* Ends its process from a thread of its own, half a second after it was created. In the kernel no call of an app lasts
 * then, so the flight recorder blames nobody. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "rosemary_app.h"

static void *tick(void *unused) {
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    abort();
}

static void *create(const struct rosemary_host *host) {
    static pthread_t thread;
    (void)host;
    if (pthread_create(&thread, NULL, tick, NULL) != 0)
        return NULL;
    return &thread;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    (void)app;
    (void)batch;
    (void)answer;
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "timebomb",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

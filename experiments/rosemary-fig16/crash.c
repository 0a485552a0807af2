/* Ends its process some seconds after its start, as if all were well. */
#include <stdlib.h>

#include "rosemary_app.h"

#ifndef SECONDS
#define SECONDS 10
#endif

struct crash {
    uint64_t at_ns;
};

static void *create(const struct rosemary_host *host) {
    (void)host;
    return calloc(1, sizeof(struct crash));
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    struct crash *crash = app;
    if (!crash->at_ns)
        crash->at_ns = batch->now_ns + SECONDS * 1000000000ull;
    if (batch->now_ns >= crash->at_ns)
        exit(0);
    answer->wake_at_ns = crash->at_ns;
    return 0;
}

static void destroy(void *app) {
    free(app);
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "crash",
    .version = "1",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

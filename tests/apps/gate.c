/* A guard that lets nothing in by port 4. */
#include "rosemary_app.h"

static const struct rosemary_host *host;

static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    (void)app;
    (void)answer;
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->records[i]->kind == ROSEMARY_PACKET_IN && batch->records[i]->in_port == 4)
            host->stop(host, i);
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "gate",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

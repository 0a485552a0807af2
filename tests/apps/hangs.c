/* An app that hangs when it receives any packet from port 3. */
#include "rosemary_app.h"

static void *create(const struct rosemary_host *host) {
    static const struct rosemary_host *its;
    its = host;
    return &its;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    (void)app;
    (void)answer;
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->records[i]->kind == ROSEMARY_PACKET_IN && batch->records[i]->in_port == 3)
            for (volatile int endless = 1; endless;)
                ;
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "hangs",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

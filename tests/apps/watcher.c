/* An app that logs every packet-in and sends nothing. */
#include <stdio.h>

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
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        char text[40];
        int size;
        if (record->kind != ROSEMARY_PACKET_IN)
            continue;
        size = snprintf(text, sizeof text, "saw a packet on port %u", (unsigned)record->in_port);
        host->log(host, ROSEMARY_LOG_INFO, text, (size_t)size);
    }
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "watcher",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

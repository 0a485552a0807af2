/* A hub in C: sends every packet out of all other ports.
 *
 *     cc -shared -fPIC -o libhub.so hub.c
 */
#include <stdlib.h>

#include "rosemary_messages.h"

struct hub {
    const struct rosemary_host *host;
};

static void *create(const struct rosemary_host *host) {
    struct hub *hub = malloc(sizeof *hub);
    if (hub) {
        hub->host = host;
        host->log(host, ROSEMARY_LOG_INFO, "hub ready", 9);
    }
    return hub;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    const struct rosemary_host *host = ((struct hub *)app)->host;

    for (uint32_t i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        if (record->kind == ROSEMARY_PACKET_IN && rosemary_packet_out(host, record, ROSEMARY_FLOOD) == ROSEMARY_FULL) {
            answer->handled = i; /* the rest again when there is room */
            break;
        }
    }
    return 0;
}

static void destroy(void *app) {
    free(app);
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "hub",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

/* A guard in C: stops every packet whose frame ends with a mark (src/mark.rs), and no other.
 *
 *     cc -shared -fPIC -I ../../crates/sdk/c -o guard.so guard.c
 */
#include "rosemary_app.h"

static const char MAGIC[8] = { 'R', 'O', 'S', 'E', 'M', 'A', 'R', 'K' };

/* Bytes of a mark, at the end of a frame. */
#define MARK 24u

static const struct rosemary_host *host;

static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    (void)app;
    (void)answer;                            /* all are handled, unless it is said otherwise */
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        if (record->kind != ROSEMARY_PACKET_IN || record->data_size < MARK)
            continue;
        if (memcmp(rosemary_packet(record) + record->data_size - MARK, MAGIC, sizeof MAGIC) == 0)
            host->stop(host, i);
    }
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "guard",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

/* Keeps a secret in the storage, and logs every change of it by another app. */
#include "rosemary_app.h"

static const struct rosemary_host *host;

/* Requests to the storage (sdk/src/services/storage.rs) about the key `secret` of its own namespace. */
static const uint8_t put[] = {2, 0, 0, 6, 0, 's', 'e', 'c', 'r', 'e', 't', 0, 0, 0, 0, 0, 0, 0, 0,
                              3, 0, 0, 0, 'm', 'y', 's'};
static const uint8_t watch[] = {5, 0, 0, 6, 0, 's', 'e', 'c', 'r', 'e', 't'};
enum { DONE = 0, CHANGED = 6 };

static void say(uint32_t level, const char *text) {
    host->log(host, level, text, (uint32_t)strlen(text));
}

static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    static uint64_t writing;
    uint32_t i;
    (void)app;
    (void)answer;
    for (i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        const uint8_t *body = rosemary_body(record);
        if (record->kind != ROSEMARY_SERVICE)
            continue;
        if (record->table_id == ROSEMARY_SERVICE_UP) {
            writing = (uint64_t)host->ask(host, ROSEMARY_SERVICE_STORAGE, put, sizeof put);
        } else if (record->table_id != ROSEMARY_SERVICE_ANSWERED) {
            say(ROSEMARY_LOG_WARN, "the storage was gone");
        } else if (record->cookie == writing && record->body_size > 0) {
            host->ask(host, ROSEMARY_SERVICE_STORAGE, watch, sizeof watch);
            say(ROSEMARY_LOG_INFO, body[0] == DONE ? "the secret is kept" : "the secret was not kept");
        } else if (record->body_size > 0 && body[0] == CHANGED) {
            say(ROSEMARY_LOG_WARN, "the secret was touched");
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
    .name = "vault",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

/* Takes memory and keeps it: 160 MB in a second, until it has 2 GB. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rosemary_app.h"

#define CHUNK (16 << 20)
#define MOST 2000000000ull

struct leak {
    uint64_t taken;
    uint64_t next_ns;
};

static void *create(const struct rosemary_host *host) {
    (void)host;
    return calloc(1, sizeof(struct leak));
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    struct leak *leak = app;
    if (batch->now_ns >= leak->next_ns && leak->taken < MOST) {
        char *more = mmap(0, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more != MAP_FAILED) {
            memset(more, 1, CHUNK);
            leak->taken += CHUNK;
        }
        leak->next_ns = batch->now_ns + 100000000;
    }
    answer->wake_at_ns = leak->next_ns;
    return 0;
}

static void destroy(void *app) {
    free(app);
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "leak",
    .version = "1",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

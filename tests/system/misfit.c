/* Logs every packet-in. Inside the kernel, a packet-in from port 3 triggers the fault BAD: 1 returns
 * an error (as a Rust app's panic does), 2 exits, 3 aborts, 4 hangs, 5 reads at address 8. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rosemary_app.h"

static const struct rosemary_host *host;
static int in_kernel;

static volatile uint64_t sum;

/* Not static, so that the object names it even without debugging information. */
__attribute__((noinline)) void add_value_at(const volatile uint64_t *place) {
    sum += *place;
}

static void *create(const struct rosemary_host *its) {
    /* The user id of the kernel; zones have the following ones. */
    in_kernel = getuid() == 0x70000000;
    host = its;
    return &host;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    (void)app;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        char text[60];
        int size;
        if (record->kind != ROSEMARY_PACKET_IN)
            continue;
        if (in_kernel && record->in_port == 3) {
            if (BAD == 4)
                for (;;)
                    ;
            if (BAD == 2)
                exit(7);
            if (BAD == 3)
                abort();
            if (BAD == 5)
                add_value_at((const volatile uint64_t *)8);
            answer->handled = i;
            return ROSEMARY_FAILED;
        }
        size = snprintf(text, sizeof text, "saw a packet on port %u in %s",
                        (unsigned)record->in_port, in_kernel ? "the kernel" : "a zone");
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
    .name = "misfit",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

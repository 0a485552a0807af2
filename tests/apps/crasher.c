/* In the kernel, a packet-in from switch 1 is handled for two seconds if WAITS is set, and one from switch 2 ends the
 * process if it is not set. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rosemary_app.h"

static const struct rosemary_host *host;

static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}

static void log_line(const char *text) {
    host->log(host, ROSEMARY_LOG_INFO, text, strlen(text));
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    (void)app;
    (void)answer;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        /* The user id of the kernel. */
        if (record->kind != ROSEMARY_PACKET_IN || getuid() != 0x70000000)
            continue;
        if (WAITS && record->dpid == 1) {
            log_line("waits");
            nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
        }
        if (!WAITS && record->dpid == 2) {
            volatile int *nowhere = NULL;
            if (EXITS)
                exit(7);
            *nowhere = 1;
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
    .name = "crasher",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

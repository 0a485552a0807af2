/*
 * An app that uses more and more of a resource: it calls `take` every STEP_MS. It logs alerts about its limits, and once
 * the error that kept it from taking more.
 *
 * An app that includes this defines STEP_MS before and `take` after the include; `take` returns 0 or an errno.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rosemary_app.h"

static const struct rosemary_host *host;
static int taken;

static int take(void);

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char text[160];
    va_list arguments;
    int size;
    va_start(arguments, format);
    size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    host->log(host, ROSEMARY_LOG_INFO, text, (uint32_t)size);
}

static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    static int kept, told;
    uint32_t number;
    int error;
    (void)app;
    for (number = 0; number < batch->count; number++) {
        const struct rosemary_record *record = batch->records[number];
        struct rosemary_alert alert;
        told |= record->kind == ROSEMARY_SNAPSHOT_END;
        if (record->kind != ROSEMARY_ALERT)
            continue;
        memcpy(&alert, rosemary_body(record), sizeof alert);
        say("ALERT limit %d uses %llu soft %llu hard %llu", record->reason,
            (unsigned long long)alert.value, (unsigned long long)alert.soft,
            (unsigned long long)alert.hard);
    }
    if (!told)
        return 0; /* without the snapshot the kernel is not there yet */
    error = take();
    if (error == 0)
        taken++;
    else if (!kept++)
        say("KEPT at %d: %s", taken, strerror(error));
    answer->wake_at_ns = batch->now_ns + STEP_MS * 1000000ull;
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "glutton",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

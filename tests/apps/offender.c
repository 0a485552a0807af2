/*
 * Sends a request to the storage. After the answer it sends a malformed request past its host, so that the storage
 * closes the socket; then it sends a request again. It logs the results, and repeats this with a new socket.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>

#include "rosemary_app.h"

static const struct rosemary_host *host;

static void say(const char *text) {
    host->log(host, ROSEMARY_LOG_INFO, text, (uint32_t)strlen(text));
}

static void ask(void) {
    static const char get[] = { 1, 0, 0, 1, 0, 'k' }; /* of its own namespace, the key k */
    host->ask(host, ROSEMARY_SERVICE_STORAGE, get, sizeof get);
}

/* The socket of the service is the last that its host was given. */
static void offend(void) {
    int fd;
    for (fd = 255; fd > 2; fd--)
        if (send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
            return;
    say("found no socket");
}

static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    uint32_t number;
    (void)app;
    (void)answer;
    for (number = 0; number < batch->count; number++) {
        const struct rosemary_record *record = batch->records[number];
        if (record->kind != ROSEMARY_SERVICE)
            continue;
        switch (record->table_id) {
        case ROSEMARY_SERVICE_UP:
            ask();
            break;
        case ROSEMARY_SERVICE_ANSWERED:
            say("was answered");
            offend();
            ask();
            break;
        default:
            say("was cut off");
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
    .name = "offender",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

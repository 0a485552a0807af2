/*
 * The frame of every hostile app: it runs an attack once and logs the result of each attempt. The attack runs at the
 * app's first call, or, if BEGIN_PORT is defined, with the first packet that comes in through that port. The app logs
 * `GOT what` or `REFUSED what: why` for each attempt, and `DONE` at the end.
 *
 * Each attempt is harmless if it succeeds, as it does without the sandbox: signals are 0, a write repeats the present
 * content, and a new file is removed.
 *
 * An app that includes this defines `attack`.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "rosemary_app.h"

static const struct rosemary_host *host;
__attribute__((unused)) static const struct rosemary_batch *first_batch;

__attribute__((unused)) static void attack(void);

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char text[256];
    va_list arguments;
    int size;
    va_start(arguments, format);
    size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size > (int)sizeof text - 1)
        size = sizeof text - 1;
    host->log(host, ROSEMARY_LOG_INFO, text, (uint32_t)size);
}

/* Whether the system said that one may not, rather than that the question made no sense. */
__attribute__((unused)) static int is_refusal(int error) {
    return error == EPERM || error == EACCES || error == ENOSYS || error == EROFS || error == ENOSPC;
}

__attribute__((unused)) static void got(const char *what) {
    say("GOT %s", what);
}

__attribute__((unused)) static void refused(const char *what, const char *why) {
    say("REFUSED %s: %s", what, why);
}

/* Logs the result of a call, which is negative if it failed, with errno. A call that failed because of its arguments
 * counts as GOT: the sandbox would let it through with others. */
__attribute__((unused)) static void tell(const char *what, long result) {
    int error = errno;
    if (result < 0 && is_refusal(error))
        refused(what, strerror(error));
    else if (result < 0)
        say("GOT %s (it looked at the arguments: %s)", what, strerror(error));
    else
        got(what);
}

/* The same, where failing for any reason is to be kept out: files that are not there. */
__attribute__((unused)) static void tell_strictly(const char *what, long result) {
    if (result < 0)
        refused(what, strerror(errno));
    else
        got(what);
}

/* Its control socket: of those behind the standard streams the first, as it is there before all others. */
__attribute__((unused)) static int control_socket(void) {
    struct stat stat;
    int fd = 3;
    while (fd < 1024 && (fstat(fd, &stat) != 0 || !S_ISSOCK(stat.st_mode)))
        fd++;
    return fd;
}

#ifndef OWN_CREATE
static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}
#else
static void *create(const struct rosemary_host *its);
#endif

/* Whether it is time. */
__attribute__((unused)) static const struct rosemary_record *
beginning(const struct rosemary_batch *batch) {
    uint32_t i;
    for (i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
#ifdef BEGIN_PORT
        if (record->kind != ROSEMARY_PACKET_IN || record->in_port != BEGIN_PORT)
            continue;
#endif
        return record;
    }
    return 0;
}

#ifndef HEARS_ANSWERS
static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    static int done;
    (void)app;
    (void)answer;
    if (!done && beginning(batch)) {
        done = 1;
        first_batch = batch;
        attack();
        say("DONE");
    }
    return 0;
}
#else
static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer);
#endif

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "hostile",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

#endif

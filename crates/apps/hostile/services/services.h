/*
 * For an app that attacks through services (sdk/src/services). For each request it logs REFUSED with the service's
 * reason, or GOT. It sends requests in two ways: through its host, as every app does, and past its host on the socket
 * itself. An app that includes this defines `attack`.
 */
#ifndef HOSTILE_SERVICES_H
#define HOSTILE_SERVICES_H

#define HEARS_ANSWERS
#include "../hostile.h"

#include <poll.h>
#include <sys/socket.h>

#define MOST 32
#define SECOND 1000000000ull
/* Of an answer on the socket: the request's number, and whether more follow. */
#define HEAD 9

/* The storage's requests and answers. */
enum { GET = 1, PUT = 2, DELETE = 3, LIST = 4, WATCH = 5 };
enum { VALUE = 1, NOTHING = 2, REFUSED = 7 };

/* The attacked namespace (tests/apps/vault.c), and the key of its secret. */
#define VICTIM "vault"
#define KEY "secret"

static struct {
    const char *what;
    uint64_t request;
} asked[MOST];
static uint32_t asked_count;

static uint32_t put_short(uint8_t *out, const char *bytes, size_t size) {
    out[0] = (uint8_t)size;
    out[1] = (uint8_t)(size >> 8);
    memcpy(out + 2, bytes, size);
    return (uint32_t)size + 2;
}

/* A request to the storage for KEY in the namespace `name` of `size` bytes; its size. */
__attribute__((unused)) static uint32_t storage_request(uint8_t *out, uint8_t what, const char *name,
                                                        size_t size) {
    uint32_t at = 1;
    out[0] = what;
    at += put_short(out + at, name, size);
    at += put_short(out + at, KEY, what < LIST ? sizeof KEY - 1 : 0);
    if (what == PUT || what == DELETE) {
        memset(out + at, 0, 8); /* whatever is there */
        at += 8;
    }
    if (what == PUT) {
        memcpy(out + at, "\4\0\0\0mine", 8);
        at += 8;
    }
    if (what == LIST)
        at += put_short(out + at, "", 0);
    return at;
}

/* Logs an answer of the storage. */
__attribute__((unused)) static void tell_answer(const char *what, const uint8_t *answer, uint32_t size) {
    char why[40];
    if (size < 1)
        refused(what, "no answer");
    else if (answer[0] == NOTHING)
        refused(what, "nothing is there");
    else if (answer[0] == REFUSED) {
        snprintf(why, sizeof why, "by the storage, for reason %u", size > 1 ? answer[1] : 0);
        refused(what, why);
    } else
        got(what);
}

/* Asks through the host. */
__attribute__((unused)) static void ask(const char *what, uint32_t service, const uint8_t *request,
                                        uint32_t size) {
    int64_t number = host->ask(host, service, request, size);
    if (number == ROSEMARY_ASK_NOT_NAMED)
        refused(what, "the service is not named");
    else if (number < 0)
        refused(what, "it was not taken");
    else if (asked_count < MOST) {
        asked[asked_count].what = what;
        asked[asked_count++].request = (uint64_t)number;
    }
}

/* Finds the process's sockets except the control socket, at most `most`. */
__attribute__((unused)) static int sockets(int *out, int most) {
    struct stat stat;
    int fd, count = 0;
    for (fd = control_socket() + 1; fd < 1024 && count < most; fd++)
        if (fstat(fd, &stat) == 0 && S_ISSOCK(stat.st_mode))
            out[count++] = fd;
    return count;
}

/* Sends a packet past the host, and waits for what comes back: its size without the head, 0 if nothing does. */
__attribute__((unused)) static uint32_t exchange(int fd, const uint8_t *request, uint32_t size,
                                                 uint8_t *answer, uint32_t room) {
    static uint8_t packet[64 * 1024];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    ssize_t received;
    memset(packet, 0xee, 8); /* a number that its host did not give */
    memcpy(packet + 8, request, size);
    if (send(fd, packet, size + 8, MSG_NOSIGNAL) < 0 || poll(&wait, 1, 500) <= 0)
        return 0;
    received = recv(fd, packet, sizeof packet, MSG_DONTWAIT);
    if (received < HEAD)
        return 0;
    size = (uint32_t)received - HEAD;
    size = size < room ? size : room;
    memcpy(answer, packet + HEAD, size);
    return size;
}

/* An answer to `request`; apps that hear something else than the storage's define it. */
static void on_answer(const char *what, uint64_t request, const uint8_t *answer, uint32_t size);

#ifndef OWN_ANSWERS
static void on_answer(const char *what, uint64_t request, const uint8_t *answer, uint32_t size) {
    (void)request;
    tell_answer(what, answer, size);
}
#endif

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    static int begun, told;
    static uint64_t give_up_at;
    uint32_t i, k;
    (void)app;
    for (i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        if (record->kind != ROSEMARY_SERVICE || record->table_id == ROSEMARY_SERVICE_UP)
            continue;
        for (k = 0; k < asked_count; k++) {
            if (asked[k].request != record->cookie)
                continue;
            if (record->table_id == ROSEMARY_SERVICE_ANSWERED)
                on_answer(asked[k].what, record->cookie, rosemary_body(record), record->body_size);
            else
                refused(asked[k].what, "the service is not there");
            asked[k] = asked[--asked_count];
            break;
        }
    }
    if (!begun && beginning(batch)) {
        begun = 1;
        give_up_at = batch->now_ns + 3 * SECOND;
        attack();
    }
    if (begun && !told) {
        if (asked_count == 0 || batch->now_ns >= give_up_at) {
            told = 1;
            for (k = 0; k < asked_count; k++)
                refused(asked[k].what, "no answer");
            say("DONE");
        } else {
            answer->wake_at_ns = give_up_at;
        }
    }
    return 0;
}

#endif

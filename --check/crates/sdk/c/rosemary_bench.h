/*
 * Tests an app in C without Rosemary: a bench calls it with records and keeps the messages that it sends.
 *
 *     #include "my_app.c"
 *     #include "rosemary_bench.h"
 *
 *     int main(void) {
 *         struct rosemary_bench *bench = rosemary_bench_new(&rosemary_app);
 *         rosemary_bench_packet_in(bench, 4, 1, frame, sizeof frame);     // OpenFlow 1.3, port 1
 *         ROSEMARY_CHECK(bench->count == 1 && bench->messages[0].bytes[1] == 13);
 *         rosemary_bench_free(bench);
 *         return 0;
 *     }
 *
 * A check that fails prints the line and ends the program. The bench allows every message and gives the band of priorities
 * 1 to 65535. It is switch 1 in its first epoch.
 */
#ifndef ROSEMARY_BENCH_H
#define ROSEMARY_BENCH_H

#include <stdio.h>
#include <stdlib.h>

#include "rosemary_app.h"

#define ROSEMARY_CHECK(condition)                                                              \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

enum { ROSEMARY_BENCH_MESSAGES = 64, ROSEMARY_BENCH_LOG = 4096 };

struct rosemary_sent {
    uint32_t size;
    uint8_t bytes[65536];
};

struct rosemary_bench {
    struct rosemary_host host;
    const struct rosemary_app *app;
    void *instance;
    uint64_t now_ns;
    uint64_t wake_at_ns;       /* when the app wants to be called; UINT64_MAX: never */
    uint32_t handled;          /* records of the last call that it handled */
    uint32_t count;            /* messages of the last call */
    uint32_t stopped;          /* whether it stopped the record of the last call */
    uint32_t requests;         /* requests to services so far */
    uint8_t request[40960];    /* the last one */
    uint32_t request_size;
    uint32_t log_size;
    char log[ROSEMARY_BENCH_LOG]; /* the lines so far */
    struct rosemary_sent messages[ROSEMARY_BENCH_MESSAGES];
    uint64_t record[(sizeof(struct rosemary_record) + 65536) / 8];
};

static void *rosemary_bench_reserve(const struct rosemary_host *host, uint32_t size) {
    struct rosemary_bench *bench = (struct rosemary_bench *)host->context;
    if (bench->count == ROSEMARY_BENCH_MESSAGES || size > sizeof bench->messages[0].bytes)
        return NULL;
    bench->messages[bench->count].size = size;
    return bench->messages[bench->count].bytes;
}

static int32_t rosemary_bench_commit(const struct rosemary_host *host, uint64_t dpid, uint32_t epoch, uint32_t size) {
    struct rosemary_bench *bench = (struct rosemary_bench *)host->context;
    if (dpid != 1 || epoch != 1 || bench->count == ROSEMARY_BENCH_MESSAGES || size > bench->messages[bench->count].size)
        return -1;
    bench->messages[bench->count++].size = size;
    return 0;
}

static int32_t rosemary_bench_commit_series(const struct rosemary_host *host, uint64_t dpid, uint32_t epoch,
                                            uint32_t size, uint32_t count) {
    (void)count;
    return rosemary_bench_commit(host, dpid, epoch, size); /* kept as it is, unlike Rosemary */
}

static uint32_t rosemary_bench_room(const struct rosemary_host *host) {
    const struct rosemary_bench *bench = (const struct rosemary_bench *)host->context;
    return (ROSEMARY_BENCH_MESSAGES - bench->count) * 65536u;
}

static void rosemary_bench_stop(const struct rosemary_host *host, uint32_t number) {
    (void)number;
    ((struct rosemary_bench *)host->context)->stopped = 1;
}

static void rosemary_bench_log(const struct rosemary_host *host, uint32_t level, const char *text, uint32_t size) {
    struct rosemary_bench *bench = (struct rosemary_bench *)host->context;
    const uint32_t left = ROSEMARY_BENCH_LOG - 2 - bench->log_size;
    (void)level;
    size = size < left ? size : left;
    memcpy(bench->log + bench->log_size, text, size);
    bench->log_size += size;
    bench->log[bench->log_size] = '\n';
    bench->log_size += bench->log_size < ROSEMARY_BENCH_LOG - 2;
    bench->log[bench->log_size] = 0;
}

static int64_t rosemary_bench_ask(const struct rosemary_host *host, uint32_t service, const void *request,
                                  uint32_t size) {
    struct rosemary_bench *bench = (struct rosemary_bench *)host->context;
    (void)service;
    if (size > sizeof bench->request)
        return ROSEMARY_ASK_TOO_LONG;
    memcpy(bench->request, request, size);
    bench->request_size = size;
    return ++bench->requests;
}

static int32_t rosemary_bench_take(const struct rosemary_host *host, uint64_t request) {
    (void)host;
    (void)request;
    return -1;
}

/* Makes an instance of an app. */
static inline struct rosemary_bench *rosemary_bench_new(const struct rosemary_app *app) {
    struct rosemary_bench *bench = (struct rosemary_bench *)calloc(1, sizeof *bench);

    ROSEMARY_CHECK(bench);
    bench->host.abi = ROSEMARY_ABI;
    bench->host.size = sizeof bench->host;
    bench->host.context = bench;
    bench->host.lowest_priority = 1;
    bench->host.highest_priority = 65535;
    bench->host.last_group = bench->host.last_meter = 0xffff;
    bench->host.reserve = rosemary_bench_reserve;
    bench->host.commit = rosemary_bench_commit;
    bench->host.commit_series = rosemary_bench_commit_series;
    bench->host.room = rosemary_bench_room;
    bench->host.stop = rosemary_bench_stop;
    bench->host.log = rosemary_bench_log;
    bench->host.ask = rosemary_bench_ask;
    bench->host.take = rosemary_bench_take;
    bench->host.config = "";
    bench->app = app;
    bench->instance = app->create(&bench->host);
    ROSEMARY_CHECK(bench->instance);
    return bench;
}

static inline void rosemary_bench_free(struct rosemary_bench *bench) {
    bench->app->destroy(bench->instance);
    free(bench);
}

/* Calls the app with one record, or for a wake-up with NULL, a millisecond after the call before. */
static inline void rosemary_bench_call(struct rosemary_bench *bench, const struct rosemary_record *record) {
    struct rosemary_batch batch = {0, 0, 0, NULL};
    struct rosemary_answer answer = {0, 0, UINT64_MAX};

    bench->count = bench->stopped = 0;
    bench->now_ns += 1000000;
    batch.now_ns = bench->now_ns;
    batch.count = answer.handled = record ? 1 : 0;
    batch.records = &record;
    ROSEMARY_CHECK(bench->app->on_batch(bench->instance, &batch, &answer) == 0);
    bench->handled = answer.handled;
    bench->wake_at_ns = answer.wake_at_ns;
}

/* Calls the app with a record of this kind and body. `version` is 1 for OpenFlow 1.0, 4 for 1.3 and 6 for 1.5. */
static inline void rosemary_bench_event(struct rosemary_bench *bench, uint16_t kind, uint8_t version, const void *body,
                                        uint16_t size) {
    struct rosemary_record *record = (struct rosemary_record *)(void *)bench->record;

    memset(record, 0, sizeof *record);
    record->size = (uint32_t)sizeof *record + size;
    record->kind = kind;
    record->version = version;
    record->dpid = 1;
    record->epoch = 1;
    record->buffer_id = ROSEMARY_NO_BUFFER;
    record->body_size = size;
    if (size)
        memcpy(record + 1, body, size);
    rosemary_bench_call(bench, record);
}

/* Calls the app with a packet-in of a whole packet. */
static inline void rosemary_bench_packet_in(struct rosemary_bench *bench, uint8_t version, uint32_t in_port,
                                            const void *packet, uint16_t size) {
    struct rosemary_record *record = (struct rosemary_record *)(void *)bench->record;

    memset(record, 0, sizeof *record);
    record->size = (uint32_t)sizeof *record + size;
    record->kind = ROSEMARY_PACKET_IN;
    record->version = version;
    record->dpid = 1;
    record->epoch = 1;
    record->in_port = in_port;
    record->buffer_id = ROSEMARY_NO_BUFFER;
    record->cookie = UINT64_MAX;
    record->body_size = record->data_size = record->total_len = size;
    memcpy(record + 1, packet, size);
    rosemary_bench_call(bench, record);
}

#endif

/* Fills the storage without end: with keys without values (KEYS), or with other values under the same few keys (not KEYS). */
#define HEARS_ANSWERS
#include "../../../../crates/apps/hostile/hostile.h"

#define MOST_PENDING 24
#define VALUE_SIZE 20000
#define SECOND 1000000000ull

enum { PUT = 2, DELETE = 3, VALUE = 1, REFUSED = 7 };

static uint32_t number, pending, refusals;

static int64_t put(uint32_t key) {
    static uint8_t request[VALUE_SIZE + 64];
    uint32_t size, at = 0, value = 0;
    request[at++] = PUT;
    memset(request + at, 0, 2); /* its own namespace */
    at += 2;
    memcpy(request + at, "\4\0", 2);
    memcpy(request + at + 2, &key, 4);
    at += 6;
    memset(request + at, 0, 8);
    at += 8;
#ifndef KEYS
    value = VALUE_SIZE;
#endif
    memcpy(request + at, &value, 4);
    at += 4;
    for (size = 0; size < value; size++)
        request[at + size] = (uint8_t)(size * key + number);
    return host->ask(host, ROSEMARY_SERVICE_STORAGE, request, at + value);
}

static void attack(void) {
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    uint32_t i;
    (void)app;
    for (i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        if (record->kind != ROSEMARY_SERVICE || record->reason != ROSEMARY_SERVICE_STORAGE)
            continue;
        if (record->table_id == ROSEMARY_SERVICE_UP)
            pending = 0;
        else if (pending > 0)
            pending--;
        if (record->table_id == ROSEMARY_SERVICE_ANSWERED && record->body_size > 0 &&
            *(const uint8_t *)rosemary_body(record) == REFUSED && refusals++ == 0)
            say("REFUSED after %u", number);
    }
    while (pending < MOST_PENDING) {
#ifdef KEYS
        if (put(number) < 0)
            break;
#else
        if (put(number % 5) < 0)
            break;
#endif
        number++;
        pending++;
    }
    if (number % 512 < MOST_PENDING)
        say("WRITTEN %u", number);
    answer->wake_at_ns = batch->now_ns + SECOND / 10;
    return 0;
}

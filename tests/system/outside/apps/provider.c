/* Provides a service and writes noise into its table without end: half-true records, all kinds, all slots; and it answers each request
 * with noise. */
#define HEARS_ANSWERS
#include "../../../../crates/apps/hostile/hostile.h"

#define SECOND 1000000000ull
#define AT_ONCE 4000

static uint64_t seed = 88172645463325252ull;

static uint64_t bits(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void attack(void) {
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    static uint64_t written;
    static uint8_t noise[40000];
    uint64_t record[ROSEMARY_RECORD_WORDS];
    uint32_t i, k;
    (void)app;
    for (i = 0; i < batch->count; i++) {
        const struct rosemary_record *it = batch->records[i];
        for (k = 0; k < sizeof noise; k++)
            noise[k] = (uint8_t)bits();
        if (it->kind == ROSEMARY_CLIENT && it->reason == ROSEMARY_CLIENT_REQUEST)
            host->answer(host, it->dpid, it->cookie, bits() % 2, noise, (uint32_t)(bits() % sizeof noise));
    }
    for (i = 0; i < AT_ONCE; i++) {
        for (k = 0; k < ROSEMARY_RECORD_WORDS; k++)
            record[k] = bits() >> (bits() % 64);
        record[0] = (bits() % 8) | (bits() % 4) << 8 | (bits() & ~0xffffull) * (bits() % 2);
        if (bits() % 2)
            record[1] = bits() % 4;
        if (host->publish(host, (uint32_t)(bits() % 524288), record) == 0)
            written++;
    }
    if (written / AT_ONCE % 64 == 0)
        say("WRITTEN %llu", (unsigned long long)written);
    answer->wake_at_ns = batch->now_ns + SECOND / 200;
    return 0;
}

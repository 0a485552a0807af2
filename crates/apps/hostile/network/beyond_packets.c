/* Waits for packets of a switch for which it does not have `packet-in`: its grant names another switch. */
#define HEARS_ANSWERS
#include "../hostile.h"

#define PATIENCE 15000000000ull

static void attack(void) {
    got("a packet of a switch that is not granted");
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    static uint64_t report_at;
    static int is_done;
    int has_packet = 0;
    uint32_t i;
    (void)app;
    for (i = 0; i < batch->count; i++)
        has_packet |= batch->records[i]->kind == ROSEMARY_PACKET_IN;
    if (report_at == 0)
        report_at = batch->now_ns + PATIENCE;
    if (is_done)
        return 0;
    if (!has_packet && batch->now_ns < report_at) {
        answer->wake_at_ns = report_at;
        return 0;
    }
    is_done = 1;
    if (has_packet)
        attack();
    else
        refused("a packet of a switch that is not granted", "none came");
    say("DONE");
    return 0;
}

/*
 * Sends MESSAGES random messages, and series of them, to each of SWITCHES switches, in the version that it speaks. The
 * same SEED makes the same messages for a switch of that version.
 *
 * After each WINDOW messages a switch is asked for a barrier, whose answer lets the next go: so nothing is refused
 * because a switch is slow to read.
 */
#define HEARS_ANSWERS
#include "../hostile.h"
#include "messages.h"

#ifndef MESSAGES
#define MESSAGES 10000u
#endif
#ifndef SWITCHES
#define SWITCHES 1
#endif
#ifndef SEED
#define SEED 1ull
#endif
#define WINDOW 256
/* Transaction ids of the barriers that the app waits for. */
#define MARK 0xff000000u
/* After this long such a barrier is sent again. */
#define AGAIN_NS 20000000ull
#define REASONS 64

static struct {
    uint64_t dpid, asked_at, state;
    uint32_t epoch, waits, left, sent;
    uint8_t version;
} switches[SWITCHES];
static uint32_t known, series, messages_of_series, marks, refusals[REASONS], answers;
static int begun, done;

static void attack(void) {
    uint32_t i;
    say("the seed is %llu", (unsigned long long)SEED);
    say("fuzzing as app %u, in band %u to %u", host->first_group >> 16, host->lowest_priority,
        host->highest_priority);
    for (i = 0; i < known; i++)
        switches[i].state = (SEED ^ (uint64_t)switches[i].version << 56) | 1;
    lowest = host->lowest_priority;
    highest = host->highest_priority;
    own_group = host->first_group;
    own_meter = host->first_meter;
}

static void hear(const struct rosemary_record *record) {
    const uint8_t *body = rosemary_body(record);
    uint32_t i, xid;
    if (record->kind == ROSEMARY_SWITCH_UP) {
        for (i = 0; i < known && switches[i].dpid != record->dpid; i++)
            ;
        if (i == SWITCHES)
            return;
        known += i == known;
        switches[i].dpid = record->dpid;
        switches[i].epoch = record->epoch;
        switches[i].version = record->version;
        switches[i].waits = 0;
    } else if (record->kind == ROSEMARY_REFUSED) {
        refusals[record->reason % REASONS]++;
    } else if (record->kind == ROSEMARY_REPLY || record->kind == ROSEMARY_ERROR) {
        answers++;
        xid = (uint32_t)body[4] << 24 | (uint32_t)body[5] << 16 | (uint32_t)body[6] << 8 | body[7];
        for (i = 0; i < known; i++)
            if (switches[i].waits == xid && xid != 0)
                switches[i].waits = 0;
    }
}

/* Asks the switch when it has done all that was sent. */
static void ask(uint32_t i, uint64_t now) {
    uint8_t barrier[8] = {switches[i].version, switches[i].version == 4 ? 20 : 18, 0, 8};
    uint32_t xid = switches[i].waits;
    barrier[4] = (uint8_t)(xid >> 24), barrier[5] = (uint8_t)(xid >> 16);
    barrier[6] = (uint8_t)(xid >> 8), barrier[7] = (uint8_t)xid;
    rosemary_send(host, switches[i].dpid, switches[i].epoch, barrier, sizeof barrier);
    switches[i].asked_at = now;
}

/* Sends to a switch up to the end of its window, or of the room. */
static void send_to(uint32_t i, uint64_t now) {
    state = switches[i].state;
    while (switches[i].left > 0 && switches[i].sent < MESSAGES && host->room(host) > 4 * MOST_BYTES + 4096) {
        uint64_t dpid = switches[i].dpid ^ (below(500) ? 0 : 1ull << 40);
        uint32_t epoch = switches[i].epoch + (below(500) ? 0 : 1);
        uint8_t version = below(200) ? switches[i].version : (uint8_t)(5 - switches[i].version);
        uint32_t many = below(100) ? 0 : 1 + below(24), size;
        void *room;
        if (many) {
            size = random_series(version, switches[i].sent, many);
            room = host->reserve(host, size);
            if (!room)
                break;
            memcpy(room, out, size);
            host->commit_series(host, dpid, epoch, size, below(50) ? many : many + 1);
            series++;
            messages_of_series += many;
        } else {
            size = random_message(version, switches[i].sent);
            if (rosemary_send(host, dpid, epoch, out, size) != 0)
                break;
        }
        switches[i].sent++;
        switches[i].left--;
    }
    switches[i].state = state;
    if (switches[i].left == 0 || switches[i].sent == MESSAGES) {
        switches[i].waits = MARK | (++marks & 0xffffff);
        switches[i].left = 0;
        ask(i, now);
    }
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    uint32_t i, idle = 0;
    (void)app;
    for (i = 0; i < batch->count; i++)
        hear(batch->records[i]);
    if (!begun && known == SWITCHES) {
        begun = 1;
        attack();
    }
    if (!begun || done)
        return 0;
    for (i = 0; i < known; i++) {
        if (switches[i].waits && batch->now_ns - switches[i].asked_at > AGAIN_NS) {
            ask(i, batch->now_ns);
        } else if (!switches[i].waits && switches[i].sent < MESSAGES) {
            if (switches[i].left == 0)
                switches[i].left = WINDOW;
            send_to(i, batch->now_ns);
        }
        idle += !switches[i].waits && switches[i].sent == MESSAGES;
    }
    if (idle == known) {
        uint32_t total = 0;
        done = 1;
        for (i = 0; i < REASONS; i++) {
            total += refusals[i];
            if (refusals[i])
                say("refused for reason %u: %u", i, refusals[i]);
        }
        say("SENT %u messages, %u of them series of %u flow-mods; heard of %u refusals, %u answers",
            known * MESSAGES, series, messages_of_series, total, answers);
        say("DONE");
        return 0;
    }
    answer->wake_at_ns = batch->now_ns + 1000000;
    return 0;
}

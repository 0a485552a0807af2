/*
 * For an app that attacks with OpenFlow 1.3 messages to the switch that the first packet came from. For each message it
 * logs REFUSED with the kernel's reason, or GOT if the kernel did not refuse it within a second. It sends messages that
 * are allowed and must not affect others with `allowed`, and logs SENT. With GOES_ON it also defines `go_on`, which is
 * called a thousand times a second for four seconds.
 */
#ifndef HOSTILE_NETWORK_H
#define HOSTILE_NETWORK_H

#define HEARS_ANSWERS
#include "../hostile.h"

#define MOST 32
#define SECOND 1000000000ull

static struct {
    const char *what;
    uint8_t reason, is_allowed;
} sent[MOST];
static uint32_t count;
static uint64_t dpid, report_at;
static uint32_t epoch;

__attribute__((unused)) static void put16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

__attribute__((unused)) static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

#ifdef GOES_ON
static void go_on(void);
#define SECONDS 4
#else
#define SECONDS 1
#endif

static void send_as(const char *what, int is_allowed, uint8_t *message, uint32_t size) {
    if (count == MOST)
        return;
    sent[count].what = what;
    sent[count].is_allowed = (uint8_t)is_allowed;
    message[0] = 4;
    put16(message + 2, size);
    put32(message + 4, ++count);
    if (rosemary_send(host, dpid, epoch, message, size) != 0)
        say("no room for %s", what);
}

/* A message that must be refused. */
__attribute__((unused)) static void forbidden(const char *what, uint8_t *message, uint32_t size) {
    send_as(what, 0, message, size);
}

/* A message that the app may send. */
__attribute__((unused)) static void allowed(const char *what, uint8_t *message, uint32_t size) {
    send_as(what, 1, message, size);
}

enum { ADD = 0, DELETE = 3 };

/* A flow-mod (OpenFlow 1.3.5 section 7.3.4.1) that matches all and has `instructions` of `more` bytes;
 * its size. */
__attribute__((unused)) static uint32_t flow_mod(uint8_t *out, uint8_t command, uint32_t priority,
                                                 const uint8_t *instructions, uint32_t more) {
    memset(out, 0, 56);
    out[1] = 14;
    out[24] = command == DELETE ? 0xff : 0;
    out[25] = command;
    put16(out + 30, priority);
    put32(out + 32, 0xffffffff); /* buffer */
    put32(out + 36, 0xffffffff); /* port: any */
    put32(out + 40, 0xffffffff); /* group: any */
    put16(out + 48, 1);          /* match: OXM */
    put16(out + 50, 4);
    memcpy(out + 56, instructions, more);
    return 56 + more;
}

/* A packet-out (section 7.3.7) of `data`, flooded; its size. */
__attribute__((unused)) static uint32_t packet_out(uint8_t *out, uint32_t buffer, const uint8_t *data,
                                                   uint32_t size) {
    memset(out, 0, 40);
    out[1] = 13;
    put32(out + 8, buffer);
    put32(out + 12, 0xfffffffd); /* from the controller */
    put16(out + 16, 16);
    put16(out + 26, 16);         /* action: output */
    put32(out + 28, 0xfffffffb); /* flood */
    memcpy(out + 40, data, size);
    return 40 + size;
}

static void report(void) {
    uint32_t i;
    for (i = 0; i < count; i++) {
        char why[40];
        snprintf(why, sizeof why, "by the kernel, for reason %u", sent[i].reason);
        if (sent[i].reason)
            refused(sent[i].what, why);
        else if (sent[i].is_allowed)
            say("SENT %s", sent[i].what);
        else
            got(sent[i].what);
    }
    say("DONE");
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    static int begun, told;
    const struct rosemary_record *first = beginning(batch);
    uint32_t i;
    (void)app;
    for (i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        if (record->kind == ROSEMARY_REFUSED && record->body_size >= 8) {
            const uint8_t *xid = rosemary_body(record) + 4;
            uint32_t number = (uint32_t)xid[2] << 8 | xid[3];
            if (number > 0 && number <= count)
                sent[number - 1].reason = record->reason;
        }
    }
    if (!begun && first) {
        begun = 1;
        dpid = first->dpid;
        epoch = first->epoch;
        report_at = batch->now_ns + SECONDS * SECOND;
        attack();
    }
    if (begun && !told) {
        if (batch->now_ns >= report_at) {
            told = 1;
            report();
        } else {
#ifdef GOES_ON
            go_on();
            answer->wake_at_ns = batch->now_ns + SECOND / 1000;
#else
            answer->wake_at_ns = report_at;
#endif
        }
    }
    return 0;
}

#endif

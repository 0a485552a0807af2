/* An app that sends messages on request: a packet that begins as below contains a message, which the app sends unchanged. It
 * logs the kernel's answers.
 *
 *     0          14        22     30      38      42
 *     +----------+---------+------+-------+-------+------------
 *     | Ethernet | MAGIC   | dpid | epoch | count | message ...
 *     +----------+---------+------+-------+-------+------------
 *
 * Numbers are big-endian. A dpid of 0 is the switch's that sent the packet; the epoch is added to that
 * of its connection.
 */
#include <stdio.h>

#include "rosemary_app.h"

#define HEAD 42u

static const char MAGIC[8] = { 'R', 'O', 'S', 'E', 'S', 'A', 'Y', 'S' };

static const struct rosemary_host *host;

/* How often the order in hand was carried out already, when there was no more room. */
static uint32_t carried_out;

/* The last reason that was logged. */
static uint8_t last_reason;

static void *create(const struct rosemary_host *its) {
    host = its;
    return &host;
}

static uint64_t number(const uint8_t *at, unsigned size) {
    uint64_t value = 0;
    while (size-- > 0)
        value = value << 8 | *at++;
    return value;
}

/* 0, or -1 if there is no room now. */
static int obey(const struct rosemary_record *record) {
    const uint8_t *order = rosemary_packet(record);
    const uint32_t size = record->data_size;
    if (size < HEAD || memcmp(order + 14, MAGIC, sizeof MAGIC) != 0)
        return 0;
    const uint64_t dpid = number(order + 22, 8);
    const uint32_t epoch = record->epoch + (uint32_t)number(order + 30, 8);
    const uint32_t count = (uint32_t)number(order + 38, 4);
    for (; carried_out < count; carried_out++)
        if (rosemary_send(host, dpid ? dpid : record->dpid, epoch, order + HEAD, size - HEAD) != 0)
            return -1;
    carried_out = 0;
    return 0;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    (void)app;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        if (record->kind == ROSEMARY_PACKET_IN && obey(record) != 0) {
            answer->handled = i;             /* this one again when there is room */
            break;
        }
        if (record->kind == ROSEMARY_REFUSED && record->reason != last_reason) {
            char text[400];
            const int more = record->data_offset == 0 ? 0 : record->data_size < 300 ? record->data_size : 300;
            const int size = snprintf(text, sizeof text, "was refused for reason %u: %.*s", record->reason, more,
                                      (const char *)rosemary_packet(record));
            last_reason = record->reason;
            host->log(host, ROSEMARY_LOG_INFO, text, (uint32_t)size);
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
    .name = "parrot",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

/* A hub in C: sends every packet out of all other ports. OpenFlow 1.0 and 1.3.
 *
 *     cc -shared -fPIC -o libhub.so hub.c
 */
#include <stdlib.h>

#include "rosemary_app.h"

struct hub {
    const struct rosemary_host *host;
};

static void put16(uint8_t *to, uint16_t value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static void put32(uint8_t *to, uint32_t value) {
    put16(to, (uint16_t)(value >> 16));
    put16(to + 2, (uint16_t)value);
}

static void *create(const struct rosemary_host *host) {
    struct hub *hub = malloc(sizeof *hub);
    if (hub) {
        hub->host = host;
        host->log(host, ROSEMARY_LOG_INFO, "hub ready", 9);
    }
    return hub;
}

/* Writes a packet-out that floods the packet of `record`. 0, or -1 if there is no room. */
static int flood(const struct rosemary_host *host, const struct rosemary_record *record) {
    const int v1_0 = record->version == 1;
    const uint32_t head = v1_0 ? 24 : 40;    /* header, packet-out and one output action */
    const int whole = record->buffer_id == ROSEMARY_NO_BUFFER;
    const uint32_t size = head + (whole ? record->data_size : 0u);
    uint8_t *out = size > 0xffff ? NULL : host->reserve(host, size);

    if (!out)
        return -1;
    memset(out, 0, head);
    out[0] = record->version;
    out[1] = 13;                             /* OFPT_PACKET_OUT in both versions */
    put16(out + 2, (uint16_t)size);
    put32(out + 8, record->buffer_id);
    if (v1_0) {
        put16(out + 12, (uint16_t)record->in_port);
        put16(out + 14, 8);
        put16(out + 18, 8);                  /* OFPAT_OUTPUT, 8 bytes */
        put16(out + 20, 0xfffb);             /* OFPP_FLOOD */
    } else {
        put32(out + 12, record->in_port);
        put16(out + 16, 16);
        put16(out + 26, 16);                 /* OFPAT_OUTPUT, 16 bytes */
        put32(out + 28, 0xfffffffbu);        /* OFPP_FLOOD */
    }
    if (whole)
        memcpy(out + head, rosemary_packet(record), record->data_size);
    return host->commit(host, record->dpid, record->epoch, size);
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    const struct rosemary_host *host = ((struct hub *)app)->host;

    for (uint32_t i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        if (record->kind == ROSEMARY_PACKET_IN && flood(host, record) != 0) {
            answer->handled = i;             /* the rest again when there is room */
            break;
        }
    }
    return 0;
}

static void destroy(void *app) {
    free(app);
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "hub",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

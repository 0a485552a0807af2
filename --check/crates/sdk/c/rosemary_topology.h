/*
 * Reads the table of the topology service in C: switches, ports and links in shared memory, without a system call.
 *
 *     static void on_link(void *context, const struct rosemary_topology_record *record) {
 *         if (record->kind == ROSEMARY_TOPOLOGY_LINK)
 *             ... record->dpid, record->port, record->to_dpid, record->to_port ...
 *     }
 *     rosemary_topology_each(host, on_link, context);
 *
 * `host` is what `create` received. The operator names `topology` in `services` and grants topology.read. While the service
 * does not run, the table is empty. ROSEMARY_TABLE records tell of changes: rosemary_topology_decode reads what a slot
 * held and holds. Names of ports come from switches and can have any content: escape them before you print them.
 */
#ifndef ROSEMARY_TOPOLOGY_H
#define ROSEMARY_TOPOLOGY_H

#include <stdint.h>
#include <string.h>

#include "rosemary_app.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of records. */
enum {
    ROSEMARY_TOPOLOGY_NONE = 0, /* the slot is empty, or the kind is newer than this header */
    ROSEMARY_TOPOLOGY_SWITCH = 1,
    ROSEMARY_TOPOLOGY_PORT = 2,
    ROSEMARY_TOPOLOGY_LINK = 3,
    ROSEMARY_TOPOLOGY_STATUS = 4,
    ROSEMARY_TOPOLOGY_LINK_DOWN = 5 /* a link that was there is down */
};

/* Flags of a switch. */
enum { ROSEMARY_SWITCH_DRAINED = 1 };

/*
 * Flags of a port: packets can leave through it; no switch is behind it, so floods may leave; a link begins or ends there; a
 * bridge without OpenFlow joins it with other ports. A port of a bridge that is no edge and has no link is not used.
 */
enum { ROSEMARY_PORT_LIVE = 1, ROSEMARY_PORT_EDGE = 2, ROSEMARY_PORT_LINK = 4, ROSEMARY_PORT_SHARED = 8 };

/* Flags of a link: its latency is that of a relay. */
enum { ROSEMARY_LINK_SUSPICIOUS = 1 };

/* Flags of a link that is down: the reason is about the port where packets left it. */
enum { ROSEMARY_LINK_DOWN_FAR_END = 1 };

/* Why a link is down. */
enum {
    ROSEMARY_DOWN_PORT = 1,         /* a port is down */
    ROSEMARY_DOWN_PORT_REMOVED = 2, /* a switch has removed a port */
    ROSEMARY_DOWN_SWITCH = 3,       /* a switch is not connected */
    ROSEMARY_DOWN_SILENT = 4        /* both ports are up, and no probe crosses the link */
};

/* Flags of the status: all ports that were known soon after the service's start have been probed. */
enum { ROSEMARY_STATUS_SETTLED = 1 };

/* Slots of the table. */
#define ROSEMARY_TOPOLOGY_SLOTS 131072u

/* A record; which fields count depends on the kind. */
struct rosemary_topology_record {
    uint8_t kind;
    uint8_t flags;
    uint64_t dpid;       /* the switch; of a link, where packets enter it */
    uint32_t port;       /* port, link, link down */
    uint32_t epoch;      /* switch: the number of its connection */
    uint32_t ports;      /* switch: how many ports it has */
    uint8_t hw_addr[6];  /* port */
    uint64_t speed_kbps; /* port: 0 if unknown */
    char name[17];       /* port: ends with a zero byte */
    uint64_t to_dpid;    /* link, link down: where packets leave it */
    uint32_t to_port;    /* link, link down */
    uint32_t metric;     /* link: the cost of its use */
    uint64_t latency_ns; /* link: 0 if unknown */
    uint32_t why;        /* link down: ROSEMARY_DOWN_..., or a newer reason */
    uint64_t since_ns;   /* link down: since when, in the service's time */
};

/* Decodes the words of a slot; the kind is ROSEMARY_TOPOLOGY_NONE if there is nothing to read. */
static inline struct rosemary_topology_record
rosemary_topology_decode(const uint64_t words[ROSEMARY_RECORD_WORDS]) {
    struct rosemary_topology_record record;
    const uint8_t kind = (uint8_t)(words[0] & 0xff);

    memset(&record, 0, sizeof record);
    if (kind < ROSEMARY_TOPOLOGY_SWITCH || kind > ROSEMARY_TOPOLOGY_LINK_DOWN)
        return record;
    record.kind = kind;
    record.flags = (uint8_t)(words[0] >> 8 & 0xff);
    record.dpid = words[1];
    if (kind == ROSEMARY_TOPOLOGY_SWITCH) {
        record.epoch = (uint32_t)(words[2] & 0xffffffffu);
        record.ports = (uint32_t)(words[3] & 0xffffffffu);
    } else if (kind == ROSEMARY_TOPOLOGY_PORT) {
        record.port = (uint32_t)(words[0] >> 32);
        for (unsigned at = 0; at < 6; at++)
            record.hw_addr[at] = (uint8_t)(words[2] >> (8 * (5 - at)) & 0xff);
        record.speed_kbps = words[3];
        for (unsigned at = 0; at < 16; at++)
            record.name[at] = (char)(unsigned char)(words[4 + at / 8] >> (8 * (at % 8)) & 0xff);
    } else if (kind == ROSEMARY_TOPOLOGY_LINK) {
        record.port = (uint32_t)(words[0] >> 32);
        record.to_dpid = words[2];
        record.to_port = (uint32_t)(words[3] & 0xffffffffu);
        record.metric = (uint32_t)(words[3] >> 32);
        record.latency_ns = words[4];
    } else if (kind == ROSEMARY_TOPOLOGY_LINK_DOWN) {
        record.port = (uint32_t)(words[0] >> 32);
        record.to_dpid = words[2];
        record.to_port = (uint32_t)(words[3] & 0xffffffffu);
        record.why = (uint32_t)(words[4] & 0xffffffffu);
        record.since_ns = words[5];
    }
    return record;
}

/* Calls `on_record` for each record of the table. Returns the version of the table before, or -1 if the service does not run;
 * the version increases with each change, so a later call may find another state. */
static inline int64_t
rosemary_topology_each(const struct rosemary_host *host,
                       void (*on_record)(void *context, const struct rosemary_topology_record *record),
                       void *context) {
    enum { AT_ONCE = 64 };
    uint64_t words[AT_ONCE][ROSEMARY_RECORD_WORDS];
    const int64_t version = host->read_table(host, ROSEMARY_SERVICE_TOPOLOGY, 0, 0, words[0]);

    if (version < 0)
        return -1;
    for (uint32_t first = 0; first < ROSEMARY_TOPOLOGY_SLOTS; first += AT_ONCE) {
        if (host->read_table(host, ROSEMARY_SERVICE_TOPOLOGY, first, AT_ONCE, words[0]) < 0)
            return -1;
        for (unsigned at = 0; at < AT_ONCE; at++) {
            const struct rosemary_topology_record record = rosemary_topology_decode(words[at]);
            if (record.kind != ROSEMARY_TOPOLOGY_NONE)
                on_record(context, &record);
        }
    }
    return version;
}

#ifdef __cplusplus
}
#endif

#endif

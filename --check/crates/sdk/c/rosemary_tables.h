/*
 * Reads the tables of services in C: records in shared memory, without a system call.
 *
 *     struct rosemary_known_host alice;
 *     if (rosemary_find_host(host, mac, ROSEMARY_UNTAGGED, &alice) == 0)
 *         ... alice.dpid, alice.port ...
 *
 * `host` is what `create` received. The operator names the service in `services` and grants its capability, such as
 * hosts.read. A look-up finds nothing while the service does not run. ROSEMARY_TABLE records tell of changes:
 * rosemary_host_of_record reads what a slot held and holds.
 */
#ifndef ROSEMARY_TABLES_H
#define ROSEMARY_TABLES_H

#include <stdint.h>
#include <string.h>

#include "rosemary_app.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of records in the table of hosts: the lowest byte of the first word. */
enum { ROSEMARY_RECORD_HOST = 1, ROSEMARY_RECORD_ADDRESS = 2 };

/* The VLAN of packets without a tag. */
#define ROSEMARY_UNTAGGED 0

__extension__ typedef unsigned __int128 rosemary_u128;

/* A host: an Ethernet address in a VLAN. */
struct rosemary_known_host {
    uint8_t mac[6];
    uint16_t vlan;           /* ROSEMARY_UNTAGGED for none */
    uint64_t dpid;           /* the switch and port that it is attached to */
    uint32_t port;
    uint32_t is_contested;   /* whether packets with its address come in at another port, too */
    uint64_t first_seen_s;   /* seconds of the monotonic clock */
    uint64_t last_seen_s;    /* may lag a minute */
    uint32_t is_doubted;     /* whether it is known from before a restart, and no packet has confirmed it since */
};

/* An IP address of a host. */
struct rosemary_known_address {
    uint8_t ip_version;      /* 4 or 6 */
    uint8_t ip[16];          /* the first 4 bytes for version 4 */
    uint16_t vlan;
    uint8_t mac[6];          /* its host */
    uint64_t last_seen_s;
};

/* Reads the record in a slot of a service's table. 0, or -1 if the slot is empty or there is no table. */
static inline int rosemary_table_record(const struct rosemary_host *host, uint32_t service, uint32_t slot,
                                        uint64_t record[ROSEMARY_RECORD_WORDS]) {
    return host->read_table(host, service, slot, 1, record) >= 0 && record[0] != 0 ? 0 : -1;
}

static inline uint64_t rosemary_fold(uint64_t a, uint64_t b) {
    const rosemary_u128 product = (rosemary_u128)a * b;
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

/* Finds the record whose first three words are `name` under `mask`, in a table with an index: that of hosts or of stats. 0,
 * or -1 if there is none. */
static inline int rosemary_table_find(const struct rosemary_host *host, uint32_t service, const uint64_t name[3],
                                      const uint64_t mask[3], uint64_t record[ROSEMARY_RECORD_WORDS]) {
    const uint64_t part = (1u << 28) - 1;
    uint64_t head[ROSEMARY_RECORD_WORDS], bucket[ROSEMARY_RECORD_WORDS];
    uint64_t hash, buckets;
    uint32_t choices[2];

    if (rosemary_table_record(host, service, 0, head) != 0 || head[0] != 0xff || head[4] == 0)
        return -1;
    buckets = head[4] & 0xffffff;
    hash = rosemary_fold(name[0] ^ head[1], head[2]) ^ name[1];
    hash = rosemary_fold(rosemary_fold(hash, head[3]) ^ name[2], head[2]);
    choices[0] = (uint32_t)((hash & part) * buckets >> 28);
    choices[1] = (uint32_t)((hash >> 28 & part) * buckets >> 28);
    if (choices[0] == choices[1])
        choices[1] = (uint32_t)((choices[1] + 1u) % buckets);
    for (int choice = 0; choice < 2; choice++) {
        if (rosemary_table_record(host, service, choices[choice] + 1, bucket) != 0)
            continue;
        for (int entry = 0; entry < 2 * (ROSEMARY_RECORD_WORDS - 1); entry++) {
            const uint32_t it = (uint32_t)(bucket[1 + entry / 2] >> (entry % 2 * 32));
            if (it == 0 || it >> 24 != hash >> 56
                || rosemary_table_record(host, service, it & 0xffffff, record) != 0)
                continue;
            if ((record[0] & mask[0]) == name[0] && (record[1] & mask[1]) == name[1]
                && (record[2] & mask[2]) == name[2])
                return 0;
        }
    }
    return -1;
}

static inline uint64_t rosemary_mac_number(const uint8_t mac[6]) {
    uint64_t number = 0;
    for (int i = 0; i < 6; i++)
        number = number << 8 | mac[i];
    return number;
}

static inline void rosemary_mac_bytes(uint64_t number, uint8_t mac[6]) {
    for (int i = 0; i < 6; i++)
        mac[i] = (uint8_t)(number >> (40 - 8 * i));
}

/* Reads a record as a host. 0, or -1 if it is none. */
static inline int rosemary_host_of_record(const uint64_t record[ROSEMARY_RECORD_WORDS],
                                          struct rosemary_known_host *out) {
    if ((record[0] & 0xff) != ROSEMARY_RECORD_HOST)
        return -1;
    rosemary_mac_bytes(record[1], out->mac);
    out->vlan = (uint16_t)(record[0] >> 16);
    out->dpid = record[2];
    out->port = (uint32_t)(record[0] >> 32);
    out->is_contested = (uint32_t)(record[0] >> 8 & 1);
    out->first_seen_s = record[3];
    out->last_seen_s = record[4];
    out->is_doubted = (uint32_t)(record[0] >> 9 & 1);
    return 0;
}

/* Reads a record as an address. 0, or -1 if it is none. */
static inline int rosemary_address_of_record(const uint64_t record[ROSEMARY_RECORD_WORDS],
                                             struct rosemary_known_address *out) {
    const uint8_t version = (uint8_t)(record[0] >> 8);
    uint8_t ip[16];

    if ((record[0] & 0xff) != ROSEMARY_RECORD_ADDRESS || (version != 4 && version != 6))
        return -1;
    for (int i = 0; i < 16; i++)
        ip[i] = (uint8_t)(record[i < 8 ? 1 : 2] >> (56 - 8 * (i % 8)));
    memset(out->ip, 0, sizeof out->ip);
    memcpy(out->ip, version == 4 ? ip + 12 : ip, version == 4 ? 4 : 16);
    out->ip_version = version;
    out->vlan = (uint16_t)(record[0] >> 16);
    rosemary_mac_bytes(record[3], out->mac);
    out->last_seen_s = record[4];
    return 0;
}

/* Finds a host. 0, or -1 if it is not known. */
static inline int rosemary_find_host(const struct rosemary_host *host, const uint8_t mac[6], uint16_t vlan,
                                     struct rosemary_known_host *out) {
    const uint64_t name[3] = {ROSEMARY_RECORD_HOST | (uint64_t)vlan << 16, rosemary_mac_number(mac), 0};
    const uint64_t mask[3] = {0xffff00ffu, UINT64_MAX, 0};
    uint64_t record[ROSEMARY_RECORD_WORDS];

    if (rosemary_table_find(host, ROSEMARY_SERVICE_HOSTS, name, mask, record) != 0)
        return -1;
    return rosemary_host_of_record(record, out);
}

/* Finds an address of 4 bytes (`ip_version` 4) or 16 (6). 0, or -1 if it is not known. */
static inline int rosemary_find_address(const struct rosemary_host *host, uint8_t ip_version, const uint8_t *ip,
                                        uint16_t vlan, struct rosemary_known_address *out) {
    const uint64_t mask[3] = {0xffffffffu, UINT64_MAX, UINT64_MAX};
    const uint64_t head = ROSEMARY_RECORD_ADDRESS | (uint64_t)ip_version << 8 | (uint64_t)vlan << 16;
    uint64_t name[3] = {head, 0, 0}, record[ROSEMARY_RECORD_WORDS];

    if (ip_version == 4)
        name[2] = 0xffff;            /* ::ffff:a.b.c.d */
    for (int i = 0; i < (ip_version == 4 ? 4 : 16); i++) {
        const int word = ip_version == 4 || i >= 8 ? 2 : 1;
        name[word] = name[word] << 8 | ip[i];
    }
    if (rosemary_table_find(host, ROSEMARY_SERVICE_HOSTS, name, mask, record) != 0)
        return -1;
    return rosemary_address_of_record(record, out);
}

#ifdef __cplusplus
}
#endif

#endif

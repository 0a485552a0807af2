/* Forges links that are not there, and hides those that are. */
#include "network.h"

#define MANY(of) (sizeof(of) / sizeof *(of))

/* What stands between the addresses and the type field of LLDP. */
static const struct {
    const char *what;
    uint8_t size, bytes[26];
} BEFORE[] = {
    {"a forged LLDP", 0, {0}},
    {"a forged LLDP behind a VLAN tag", 4, {0x81, 0, 0, 1}},
    {"a forged LLDP behind two VLAN tags", 8, {0x88, 0xa8, 0, 1, 0x81, 0, 0, 1}},
    {"a forged LLDP behind an old VLAN tag", 4, {0x91, 0, 0, 1}},
    {"a forged LLDP behind another old VLAN tag", 4, {0x92, 0, 0, 1}},
    {"a forged LLDP in SNAP", 8, {0, 27, 0xaa, 0xaa, 3, 0, 0, 0}},
    {"a forged LLDP in SNAP of a bridge tunnel", 8, {0, 27, 0xaa, 0xaa, 3, 0, 0, 0xf8}},
    {"a forged LLDP in SNAP behind a VLAN tag", 12, {0x81, 0, 0, 1, 0, 27, 0xaa, 0xaa, 3, 0, 0, 0}},
    {"a forged LLDP in SNAP behind two VLAN tags", 16,
     {0x88, 0xa8, 0, 1, 0x81, 0, 0, 1, 0, 27, 0xaa, 0xaa, 3, 0, 0, 0}},
    {"a forged LLDP in PBB", 18, {0x88, 0xe7, 0, 0, 0, 1, 1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 0x66}},
};

/* Actions that make LLDP of a packet that is none (OpenFlow 1.3.5 section 7.2.5). */
static const struct {
    const char *what;
    uint8_t action[16], size;
} MAKE[] = {
    {"pop_mpls to LLDP", {0, 20, 0, 8, 0x88, 0xcc}, 8},
    {"pop_mpls to a VLAN tag", {0, 20, 0, 8, 0x81, 0}, 8},
    {"pop_mpls to PBB", {0, 20, 0, 8, 0x88, 0xe7}, 8},
    {"pop_mpls to SNAP", {0, 20, 0, 8, 0, 27}, 8},
    {"push_vlan of LLDP", {0, 17, 0, 8, 0x88, 0xcc}, 8},
    {"push_mpls of LLDP", {0, 19, 0, 8, 0x88, 0xcc}, 8},
    {"set_field of LLDP's type", {0, 25, 0, 16, 0x80, 0, 0x0a, 2, 0x88, 0xcc}, 16},
};

static const uint8_t FLOOD[16] = {0, 0, 0, 16, 0xff, 0xff, 0xff, 0xfb};
static const uint8_t REPORT[16] = {0, 0, 0, 16, 0xff, 0xff, 0xff, 0xfd, 0xff, 0xff};
static const uint8_t START[] = {1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 0x66};
static const uint8_t TLVS[] = {2, 7, 4, 2, 0, 0, 0, 0, 9, 4, 2, 7, '1', 6, 2, 0, 120, 0, 0};

static uint8_t message[300];

/* A flow-mod that adds a flow for LLDP, with one action, or none; its size. */
static uint32_t flow_for_lldp(const uint8_t *action, uint32_t size) {
    static const uint8_t match[16] = {0, 1, 0, 10, 0x80, 0, 0x0a, 2, 0x88, 0xcc};
    uint32_t head = flow_mod(message, ADD, host->lowest_priority, FLOOD, 0) - 8;
    memcpy(message + head, match, sizeof match);
    memset(message + head + 16, 0, 8);
    put16(message + head + 16, 4); /* apply */
    put16(message + head + 18, 8 + size);
    memcpy(message + head + 24, action, size);
    return head + 24 + size;
}

static void attack(void) {
    static const uint8_t mpls[] = {0x88, 0x47, 0, 0, 0x11, 0x40};
    uint8_t data[100];
    uint32_t i, size;

    for (i = 0; i < MANY(BEFORE); i++) {
        memcpy(data, START, sizeof START);
        memcpy(data + 12, BEFORE[i].bytes, BEFORE[i].size);
        size = 12 + BEFORE[i].size;
        put16(data + size, 0x88cc);
        memcpy(data + size + 2, TLVS, sizeof TLVS);
        size = packet_out(message, 0xffffffff, data, size + 2 + sizeof TLVS);
        forbidden(BEFORE[i].what, message, size);
    }
    memcpy(data, START, sizeof START);
    memcpy(data + 12, mpls, sizeof mpls);
    memcpy(data + 18, TLVS, sizeof TLVS);
    for (i = 0; i < MANY(MAKE); i++) {
        packet_out(message, 0xffffffff, FLOOD, 0);
        put16(message + 16, MAKE[i].size + 16);
        memcpy(message + 24, MAKE[i].action, MAKE[i].size);
        memcpy(message + 24 + MAKE[i].size, FLOOD, sizeof FLOOD);
        size = 40 + MAKE[i].size;
        memcpy(message + size, data, 18 + sizeof TLVS);
        forbidden(MAKE[i].what, message, size + 18 + sizeof TLVS);
    }
    forbidden("a flow that floods LLDP", message, flow_for_lldp(FLOOD, sizeof FLOOD));
    forbidden("a flow that drops LLDP", message, flow_for_lldp(FLOOD, 0));
    /* A later modify of all packets could redirect it. */
    forbidden("a flow that reports LLDP", message, flow_for_lldp(REPORT, sizeof REPORT));
}

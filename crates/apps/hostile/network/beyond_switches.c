/* Uses every capability at a switch for which it has none: its grants name another switch. */
#include "network.h"

static const uint8_t LLDP[] = {1, 0x80, 0xc2, 0,    0,    0x0e, 2, 0, 0, 0,   0, 0x66, 0x88, 0xcc, 2, 7,  4,
                               2, 0,    0,    0,    0,    9,    4, 2, 7, '1', 6, 2,    0,    120,  0, 0};
static const uint8_t OTHER[60] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5};

static uint8_t message[200];

/* An empty message of this kind; `message` has room for it. */
static uint8_t *blank(uint8_t kind) {
    memset(message, 0, sizeof message);
    message[1] = kind;
    return message;
}

/* A multipart request (OpenFlow 1.3.5 section 7.3.5). */
static uint8_t *request(uint8_t type) {
    blank(18)[9] = type;
    return message;
}

static void attack(void) {
    uint32_t size = flow_mod(message, ADD, host->lowest_priority, 0, 0);
    message[24] = 200; /* a table that no packet reaches */
    forbidden("a flow", message, size);
    size = flow_mod(message, DELETE, 0, 0, 0);
    message[24] = 200;
    forbidden("a delete", message, size);
    forbidden("a packet", message, packet_out(message, 0xffffffff, OTHER, sizeof OTHER));
    forbidden("a forged LLDP", message, packet_out(message, 0xffffffff, LLDP, sizeof LLDP));
    size = packet_out(message, 0xffffffff, OTHER, sizeof OTHER);
    put32(message + 28, 0xfffffffa); /* the switch's own forwarding */
    forbidden("a packet to NORMAL", message, size);
    put32(blank(15) + 12, host->first_group); /* group-mod: adds a group without buckets */
    forbidden("a group", message, 16);
    put16(blank(29) + 10, 1); /* meter-mod: a drop band, in kbit/s */
    put32(message + 12, host->first_meter);
    put16(message + 16, 1);
    put16(message + 18, 16);
    put32(message + 20, 1000);
    forbidden("a meter", message, 32);
    forbidden("statistics of tables", request(3), 16);
    put32(request(1) + 20, 0xffffffff); /* any port, any group, all tables, all flows */
    message[16] = 0xff;
    put32(message + 24, 0xffffffff);
    put16(message + 48, 1);
    put16(message + 50, 4);
    forbidden("statistics of flows", message, 56);
    forbidden("descriptions of groups", request(7), 16);
    forbidden("the configuration", blank(7), 8);
    forbidden("table-mod", blank(17), 16);
    put32(blank(4) + 8, 0x2320);
    put32(message + 12, 0xffff);
    forbidden("an experimenter's message", message, 24);
    forbidden("a barrier", blank(20), 8);
}

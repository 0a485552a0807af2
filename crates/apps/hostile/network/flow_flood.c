/* Fills the switch's table, as fast as it can, for some seconds. */
#define GOES_ON
#include "network.h"

#define FLOWS 5000

static uint8_t message[64];
static uint32_t size, next;

static void attack(void) {
    size = flow_mod(message, ADD, host->lowest_priority, 0, 0) + 8;
    put16(message + 50, 12); /* match: in_port, another one each time */
    put32(message + 52, 0x80000004);
    put32(message + 56, 1000);
    forbidden("thousands of flows in a second", message, size);
}

static void go_on(void) {
    int i;
    for (i = 0; i < 16 && rosemary_send(host, dpid, epoch, message, size) == 0; i++)
        put32(message + 56, 1000 + next++ % FLOWS);
}

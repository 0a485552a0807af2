/* Fills the switch's table, as fast as it can. */
#include "network.h"

static void attack(void) {
    static uint8_t message[64];
    uint32_t size = flow_mod(message, ADD, host->lowest_priority, 0, 0) + 8, i;
    put16(message + 50, 12); /* match: in_port, another one each time */
    put32(message + 52, 0x80000004);
    put32(message + 56, 1000);
    forbidden("thousands of flows in a second", message, size);
    for (i = 0; i < 5000 && rosemary_send(host, dpid, epoch, message, size) == 0; i++)
        put32(message + 56, 1000 + i);
}

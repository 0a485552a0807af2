/* Sends packets that the switch keeps for others. */
#include "network.h"

static void attack(void) {
    static uint8_t message[64];
    uint32_t size, buffer;
    for (buffer = 1; buffer <= 8; buffer++)
        forbidden("a packet that was not given to it", message, packet_out(message, 256 + buffer, 0, 0));
    size = flow_mod(message, ADD, host->lowest_priority, 0, 0);
    put32(message + 32, 256);
    forbidden("a flow with a packet that was not given to it", message, size);
}

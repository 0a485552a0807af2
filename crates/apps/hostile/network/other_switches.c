/* Writes to switches that it has not seen, and to connections that are over. */
#include "network.h"

static void attack(void) {
    static uint8_t message[64];
    uint32_t size = flow_mod(message, ADD, host->lowest_priority, 0, 0);
    dpid++;
    forbidden("a flow in a switch that is not there", message, size);
    dpid--;
    epoch--;
    forbidden("a flow for a connection that is over", message, size);
    epoch += 2;
    forbidden("a flow for a connection to come", message, size);
    epoch--;
    message[24] = 0;
    forbidden("a message that is cut", message, size - 4);
}

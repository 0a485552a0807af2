/* Writes flows above those of others, and in their place. */
#include "network.h"

static void attack(void) {
    static uint8_t message[64];
    uint32_t below = host->lowest_priority, above = host->highest_priority;
    forbidden("a flow above all others", message, flow_mod(message, ADD, 65535, 0, 0));
    forbidden("a flow just above its band", message, flow_mod(message, ADD, above + 1, 0, 0));
    forbidden("a flow just below its band", message, flow_mod(message, ADD, below - 1, 0, 0));
    forbidden("another table-miss flow", message, flow_mod(message, ADD, 0, 0, 0));
    flow_mod(message, ADD, above, 0, 0);
    message[8] = 1; /* somebody's number, at the top of the cookie */
    forbidden("a flow in another app's name", message, 56);
}

/* Has the switch write flows, past every check: the action `learn` of Open vSwitch. */
#include "network.h"

static void attack(void) {
    static uint8_t message[128];
    static uint8_t learn[8 + 32] = {0, 4, 0, 40, 0, 0, 0, 0,
                                    0xff, 0xff, 0, 32, 0, 0, 0x23, 0x20, 0, 16};
    put16(learn + 8 + 14, 65535); /* priority */
    forbidden("a flow with the action learn", message,
              flow_mod(message, ADD, host->lowest_priority, learn, sizeof learn));
}

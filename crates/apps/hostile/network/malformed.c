/* Floods malformed messages, as fast as it can, for some seconds: each is refused, which takes time. */
#define GOES_ON
#include "network.h"

static uint8_t message[64];

static void attack(void) {
    flow_mod(message, ADD, host->lowest_priority, 0, 0);
    forbidden("thousands of messages that are cut", message, 52);
    message[3] = 56; /* a length that it does not have */
}

static void go_on(void) {
    int i;
    for (i = 0; i < 500 && rosemary_send(host, dpid, epoch, message, 52) == 0; i++)
        ;
}

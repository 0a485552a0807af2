/* Floods messages to switches that are not there, as fast as it can, for some seconds: each is refused, which takes time. */
#define GOES_ON
#include "network.h"

static uint8_t message[64];
static uint32_t size;

static void attack(void) {
    size = flow_mod(message, ADD, host->lowest_priority, 0, 0);
    dpid++;
    forbidden("thousands of flows in switches that are not there", message, size);
    dpid--;
}

static void go_on(void) {
    uint32_t i;
    for (i = 0; i < 500 && rosemary_send(host, dpid + 1 + i, epoch, message, size) == 0; i++)
        ;
}

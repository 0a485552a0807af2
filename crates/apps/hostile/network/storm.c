/* Floods packets through the switch, as fast as it can, for some seconds. */
#define GOES_ON
#include "network.h"

static uint8_t message[200];
static uint32_t size;

static void attack(void) {
    static uint8_t data[64] = {255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0x66, 0x88, 0xb5};
    size = packet_out(message, 0xffffffff, data, sizeof data);
    forbidden("thousands of packets in a second", message, size);
}

static void go_on(void) {
    int i;
    /* The same again, by the same number: that one is refused shows that there is an end to it. */
    for (i = 0; i < 16 && rosemary_send(host, dpid, epoch, message, size) == 0; i++)
        ;
}

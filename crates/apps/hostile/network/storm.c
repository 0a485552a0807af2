/* Floods packets through the switch, as fast as it can. */
#include "network.h"

static void attack(void) {
    static uint8_t message[200], data[64] = {255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0x66, 0x88, 0xb5};
    uint32_t size = packet_out(message, 0xffffffff, data, sizeof data), i;
    forbidden("thousands of packets in a second", message, size);
    /* The same again, by the same number: that one is refused shows that there is an end to it. */
    for (i = 0; i < 20000 && rosemary_send(host, dpid, epoch, message, size) == 0; i++)
        ;
}

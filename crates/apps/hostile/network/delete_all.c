/* Deletes every flow of everybody, again and again. The kernel narrows it to its own. */
#include "network.h"

static void attack(void) {
    static uint8_t message[64];
    uint32_t size = flow_mod(message, DELETE, 0, 0, 0);
    int i;
    for (i = 0; i < 200; i++)
        rosemary_send(host, dpid, epoch, (message[0] = 4, put16(message + 2, size), message), size);
    allowed("a delete of all flows, 200 times", message, size);
    size = flow_mod(message, DELETE, 0, 0, 0);
    put32(message + 8, 0x00010000); /* another app's cookie */
    put32(message + 16, 0xffff0000);
    forbidden("a delete of another app's flows by their cookie", message, size);
}

/*
 * Floods packets whose transaction ids follow no order, for some seconds: where all apps share what the kernel remembers of
 * them, the errors of others cannot be led back.
 */
#define GOES_ON
#include "network.h"

static uint8_t message[200];
static uint32_t size;

static void attack(void) {
    static uint8_t data[64] = {255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0x67, 0x88, 0xb5};
    size = packet_out(message, 0xffffffff, data, sizeof data);
    allowed("packets with random transaction ids", message, size);
}

static void go_on(void) {
    static uint32_t id = 1;
    int i;
    for (i = 0; i < 16; i++) {
        id = id * 1664525 + 1013904223;
        put32(message + 4, id | 0x10000); /* no number of an attempt */
        if (rosemary_send(host, dpid, epoch, message, size) != 0)
            return;
    }
}

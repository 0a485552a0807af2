/* Deletes the groups and meters of others, and makes some in their place. */
#include "network.h"

static void attack(void) {
    static uint8_t message[64];
    memset(message, 0, sizeof message);
    message[1] = 15; /* group-mod (OpenFlow 1.3.5 section 7.3.4.2) */
    put16(message + 8, 2);
    put32(message + 12, 0xfffffffc);
    forbidden("the deletion of all groups", message, 16);
    put32(message + 12, 1);
    forbidden("the deletion of another app's group", message, 16);
    put16(message + 8, 0);
    forbidden("a group with another app's number", message, 16);
    message[1] = 29; /* meter-mod (section 7.3.4.4) */
    put16(message + 8, 2);
    put32(message + 12, 0xffffffff);
    forbidden("the deletion of all meters", message, 16);
}

/* Forges links that are not there. */
#include "network.h"

static uint32_t frame(uint8_t *out, const uint16_t *types, uint32_t many) {
    static const uint8_t start[] = {1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 0x66};
    static const uint8_t tlvs[] = {2, 7, 4, 2, 0, 0, 0, 0, 9, 4, 2, 7, '1', 6, 2, 0, 120, 0, 0};
    uint32_t size = sizeof start, i;
    memcpy(out, start, size);
    for (i = 0; i < many; i++, size += i < many ? 4 : 2) {
        put16(out + size, types[i]);
        put16(out + size + 2, 1); /* the tag */
    }
    memcpy(out + size, tlvs, sizeof tlvs);
    return size + sizeof tlvs;
}

static void attack(void) {
    static const uint16_t plain[] = {0x88cc}, tagged[] = {0x8100, 0x88cc},
                          twice[] = {0x88a8, 0x8100, 0x88cc};
    static uint8_t message[200], data[100];
    forbidden("a forged LLDP", message, packet_out(message, 0xffffffff, data, frame(data, plain, 1)));
    forbidden("a forged LLDP behind a VLAN tag", message,
              packet_out(message, 0xffffffff, data, frame(data, tagged, 2)));
    forbidden("a forged LLDP behind two VLAN tags", message,
              packet_out(message, 0xffffffff, data, frame(data, twice, 3)));
}

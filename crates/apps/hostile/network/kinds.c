/* Says what is the controller's to say, and what nobody says. */
#include "network.h"

static void attack(void) {
    static const struct {
        uint8_t kind;
        uint16_t size;
        const char *what;
    } kinds[] = {
        {0, 8, "hello"},
        {2, 8, "an echo request"},
        {5, 8, "a features request"},
        {9, 12, "set-config: every packet cut to nothing"},
        {16, 16, "port-mod"},
        {17, 16, "table-mod"},
        {24, 24, "a role: another controller's slave"},
        {28, 32, "set-async: no packets for anybody"},
        {10, 32, "a packet-in"},
        {200, 8, "a kind that is not there"},
    };
    static uint8_t message[64];
    size_t i;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        memset(message, 0, sizeof message);
        message[1] = kinds[i].kind;
        if (kinds[i].kind == 24)
            put32(message + 8, 3);
        if (kinds[i].kind == 16)
            put32(message + 8, 1);
        forbidden(kinds[i].what, message, kinds[i].size);
    }
}

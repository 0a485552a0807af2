/* Has the switch send packets to Rosemary as if they came from the network, and hides others from it. */
#include "network.h"

enum { IN_PORT = 0xfffffff8, TABLE, NORMAL, FLOOD, ALL, CONTROLLER, LOCAL, ANY };

static uint8_t message[200];

/* A packet of another host that is not there, as if it came in by `in_port`; its size. */
static uint32_t send_to(uint32_t in_port, uint32_t port) {
    static const uint8_t data[64] = {2, 0, 0, 0, 0, 0x67, 2, 0, 0, 0, 0, 0x66, 0x88, 0xb5};
    uint32_t size = packet_out(message, 0xffffffff, data, sizeof data);
    put32(message + 12, in_port);
    put32(message + 28, port);
    return size;
}

static void attack(void) {
    uint8_t normal[24] = {0, 4, 0, 24};

    forbidden("a packet to the controller with a forged in-port", message, send_to(1, CONTROLLER));
    forbidden("a packet through the flow tables", message, send_to(1, TABLE));
    forbidden("a packet to the controller from the controller", message, send_to(CONTROLLER, CONTROLLER));
    forbidden("a packet back to the controller", message, send_to(CONTROLLER, IN_PORT));
    forbidden("a packet to the switch's own forwarding", message, send_to(1, NORMAL));
    forbidden("a packet from a port that is none", message, send_to(TABLE, IN_PORT));
    put16(normal + 10, 16); /* action: output */
    put32(normal + 12, NORMAL);
    forbidden("a flow to the switch's own forwarding", message,
              flow_mod(message, ADD, host->lowest_priority, normal, sizeof normal));
}

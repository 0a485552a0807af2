/* Asks the kernel about its network. */
#include "hostile.h"

#include <sys/socket.h>

static void attack(void) {
    tell("a netlink socket", socket(AF_NETLINK, SOCK_RAW, 0));
    tell("a vsock socket", socket(AF_VSOCK, SOCK_STREAM, 0));
}

/* Listens to the wire. */
#include "hostile.h"

#include <arpa/inet.h>
#include <sys/socket.h>

static void attack(void) {
    tell("a raw socket", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
    tell("a packet socket", socket(AF_PACKET, SOCK_RAW, htons(3)));
}

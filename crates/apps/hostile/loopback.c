/* Connects to what listens on this machine, and listens itself. */
#include "hostile.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static void attack(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(6653)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    tell_strictly("connecting to the kernel's port",
                  connect(fd, (const struct sockaddr *)&address, sizeof address));
    address.sin_port = 0;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tell_strictly("binding a port", bind(fd, (const struct sockaddr *)&address, sizeof address));
    tell_strictly("listening", listen(fd, 1));
}

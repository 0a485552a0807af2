/* Plays the operator. */
#include "hostile.h"

#include <sys/socket.h>
#include <sys/un.h>

static void attack(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/rosemary/admin.sock"};
    int own[2];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    tell("a socket", fd);
    tell_strictly("connecting to the admin socket",
                  connect(fd, (const struct sockaddr *)&address, sizeof address));
    tell("a pair of sockets", socketpair(AF_UNIX, SOCK_STREAM, 0, own));
}

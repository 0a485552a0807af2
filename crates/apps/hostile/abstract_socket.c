/* Meets others at a socket without a file. */
#include "hostile.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static void attack(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0rosemary-hostile"};
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof "\0rosemary-hostile";
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    tell_strictly("an abstract socket", bind(fd, (const struct sockaddr *)&address, size));
}

/* Closes every descriptor: its control socket, its doorbells and its log. */
#include "../hostile.h"

static void attack(void) {
    int fd;
    for (fd = 0; fd < 1024; fd++)
        close(fd);
}

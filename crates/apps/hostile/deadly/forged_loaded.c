/* Says by the host's socket that it is loaded, while it is being created, and never returns. */
#define OWN_CREATE
#include "../hostile.h"

#include <sys/socket.h>

static void attack(void) {}

static void *create(const struct rosemary_host *its) {
    static const char loaded[] = "{\"Loaded\":{\"version\":\"0.1.0\"}}";
    host = its;
    if (send(control_socket(), loaded, sizeof loaded - 1, MSG_NOSIGNAL) < 0)
        say("the forged message was not sent: %s", strerror(errno));
    for (volatile int endless = 1; endless;)
        ;
    return 0;
}

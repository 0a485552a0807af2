/* Never returns from its creation, while 60 other threads spin: the thread that makes the app's calls receives little
 * processor time. */
#define OWN_CREATE
#include "../hostile.h"

#include <pthread.h>
#include <sys/socket.h>

static void attack(void) {}

static void *spin(void *none) {
    for (volatile int endless = 1; endless;)
        ;
    return none;
}

/* Forges the message that it is loaded, as a creation that lasts too long would end it. */
static void *create(const struct rosemary_host *its) {
    static const char loaded[] = "{\"Loaded\":{\"version\":\"0.1.0\"}}";
    pthread_t thread;
    int i;
    host = its;
    for (i = 0; i < 60 && pthread_create(&thread, 0, spin, 0) == 0; i++)
        ;
    if (send(control_socket(), loaded, sizeof loaded - 1, MSG_NOSIGNAL) < 0)
        say("the forged message was not sent: %s", strerror(errno));
    return spin(0);
}

/* Takes all the processor time there is, for some seconds, and answers in time meanwhile: by threads. */
#include "../hostile.h"

#include <pthread.h>
#include <time.h>

#define SECONDS 7 /* long enough to be taken for more than a burst */

static void *spin(void *nothing) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec - begin.tv_sec < SECONDS);
    return nothing;
}

static void attack(void) {
    pthread_t thread;
    int made = 0;
    while (made < 16 && pthread_create(&thread, 0, spin, 0) == 0)
        made++;
    say("spins in %d threads", made);
}

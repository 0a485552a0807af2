/* Makes threads, more than any app has use for. */
#include "../hostile.h"

#include <pthread.h>

#define MOST 1000

static volatile int over;

static void *wait_for_end(void *nothing) {
    while (!over)
        usleep(200000);
    return nothing;
}

static void attack(void) {
    static pthread_t threads[MOST];
    int made = 0, error;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    while (made < MOST && (errno = pthread_create(&threads[made], &small, wait_for_end, 0)) == 0)
        made++;
    error = errno;
    say("made %d threads", made);
    sleep(3);
    errno = error;
    tell_strictly("a thousand threads", made == MOST ? 0 : -1);
    over = 1;
    while (made > 0)
        pthread_join(threads[--made], 0);
}

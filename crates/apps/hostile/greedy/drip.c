/* Writes a byte at a time, without end: half of it one line, half of it empty lines. */
#include "../hostile.h"

#include <time.h>

#define SECONDS 4

static void attack(void) {
    struct timespec begin, now;
    long written = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    now = begin;
    do {
        struct timespec pause = {0, 20000};
        if (write(2, now.tv_sec % 2 ? "x" : "\n", 1) > 0)
            written++;
        nanosleep(&pause, 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < SECONDS);
    if (write(2, "\n", 1) < 0)
        return;
    sleep(2); /* so that its last word is heard */
    say("wrote %ld bytes, one by one", written);
}

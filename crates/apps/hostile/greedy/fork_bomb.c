/* Forks, and each child forks, again and again for some seconds. The tree is small: it is to show that it
 * grows. */
#include "../hostile.h"

#include <sys/wait.h>
#include <time.h>

#define MOST 32
#define SECONDS 3

static int grow(void) {
    int made = 0, ended;
    pid_t child;
    while (made < MOST && (child = fork()) >= 0) {
        if (child == 0) {
            if (fork() == 0)
                _exit(0);
            wait(0);
            _exit(0);
        }
        made++;
    }
    for (ended = 0; ended < made; ended++)
        wait(0);
    return made;
}

static void attack(void) {
    struct timespec begin, now;
    int made = 0, error = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        errno = 0;
        made += grow();
        error = errno ? errno : error;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < SECONDS);
    say("forked %d times", made);
    errno = error;
    tell("a fork bomb", made > 0 ? 0 : -1);
}

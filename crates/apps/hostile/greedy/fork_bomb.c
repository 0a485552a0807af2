/* Forks, and each child forks. The tree is small: it is to show that it grows. */
#include "../hostile.h"

#include <sys/wait.h>

#define MOST 32

static void attack(void) {
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
    say("forked %d times", made);
    tell("a fork bomb", made > 0 ? 0 : -1);
    for (ended = 0; ended < made; ended++)
        wait(0);
}

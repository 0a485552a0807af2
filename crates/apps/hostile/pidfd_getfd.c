/* Takes a descriptor out of its parent. */
#include "hostile.h"

static void attack(void) {
    long pidfd = syscall(SYS_pidfd_open, getppid(), 0);
    long taken;
    tell("pidfd_open of the parent", pidfd);
    taken = syscall(SYS_pidfd_getfd, pidfd, 0, 0);
    tell("pidfd_getfd of the parent", taken);
    if (taken >= 0)
        close((int)taken);
    if (pidfd >= 0)
        close((int)pidfd);
}

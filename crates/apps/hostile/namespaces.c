/* Leaves its namespaces, for new ones and for others'. */
#include "hostile.h"

#include <sched.h>

static void attack(void) {
    tell("unshare", unshare(CLONE_NEWUTS));
    tell("setns", setns(-1, CLONE_NEWNET));
    tell("a namespace by clone", syscall(SYS_clone, CLONE_NEWUSER | CLONE_THREAD, 0, 0, 0, 0));
}

/* Becomes somebody else. */
#include "hostile.h"

#include <grp.h>
#include <sys/prctl.h>

static void attack(void) {
    char none[24] = {0};
    tell("setuid", syscall(SYS_setuid, getuid()));
    tell("setgroups", syscall(SYS_setgroups, 0, 0));
    tell("capset", syscall(SYS_capset, none, none));
    tell("keeping capabilities", prctl(PR_SET_KEEPCAPS, 0));
}

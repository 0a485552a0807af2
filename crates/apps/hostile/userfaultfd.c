/* Keeps the kernel waiting in the middle of a copy. */
#include "hostile.h"

static void attack(void) {
    tell("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC));
}

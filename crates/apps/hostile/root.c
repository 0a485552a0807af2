/* Changes its root directory. */
#include "hostile.h"

static void attack(void) {
    tell("pivot_root", syscall(SYS_pivot_root, "/", "/"));
    tell("chroot", chroot("/"));
}

/* Loads programs into the kernel. */
#include "hostile.h"

static void attack(void) {
    tell("bpf", syscall(SYS_bpf, 0, 0, 0));
    tell("init_module", syscall(SYS_init_module, 0, 0, ""));
    tell("seccomp", syscall(SYS_seccomp, 1, 0, 0));
}

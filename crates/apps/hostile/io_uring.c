/* Makes system calls by a queue, past what looks at system calls. */
#include "hostile.h"

static void attack(void) {
    char parameters[256] = {0};
    tell("io_uring_setup", syscall(SYS_io_uring_setup, 1, parameters));
}

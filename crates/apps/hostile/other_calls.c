/* Calls of another architecture, past a filter that only knows its own. */
#include "hostile.h"

static void attack(void) {
#if defined(__x86_64__)
    long result;
    /* getpid of 32-bit x86. */
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
    if (result > 0)
        got("a 32-bit system call");
    else
        refused("a 32-bit system call", strerror((int)-result));
    tell("an x32 system call", syscall(0x40000000 | SYS_getpid));
#endif
}

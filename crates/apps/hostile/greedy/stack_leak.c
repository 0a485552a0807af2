/* Takes memory that grows downwards when it is touched, as a stack does, and that is not counted where other private
 * memory is. */
#include "../hostile.h"

#ifndef MEMORY_MIB
#define MEMORY_MIB 256
#endif

#define STACK (7u << 20) /* less than a stack's limit, above which touching is the end */
#define PAGE 4096

static void attack(void) {
    size_t taken = 0, at;
    while (taken >> 20 < MEMORY_MIB) {
        /* A place with room below. */
        char *room = mmap(0, 2 * STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        char *top = room + 2 * STACK - PAGE;
        if (room == MAP_FAILED)
            break;
        munmap(room, 2 * STACK);
        if (mmap(top, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1,
                 0) == MAP_FAILED)
            break;
        for (at = 0; at < STACK; at += PAGE)
            *(volatile char *)(top - at) = 1;
        taken += STACK;
    }
    say("took %zu MiB", taken >> 20);
    tell_strictly("memory that grows downwards", taken >> 20 >= MEMORY_MIB ? 0 : -1);
}

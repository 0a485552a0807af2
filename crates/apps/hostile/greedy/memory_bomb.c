/* Takes memory as fast as it can, and uses it. */
#include "../hostile.h"

#ifndef MEMORY_MIB
#define MEMORY_MIB 256
#endif

static void attack(void) {
    int taken = 0;
    while (taken < MEMORY_MIB) {
        char *more = mmap(0, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED)
            break;
        memset(more, 1, 64 << 20);
        taken += 64;
        usleep(0);
    }
    say("took %d MiB", taken);
    tell_strictly("all the memory it wants", taken >= MEMORY_MIB ? 0 : -1);
}

/* Takes memory as fast as it can, and makes it read-only once it is written. */
#include "../hostile.h"

#define MEMORY (256ul << 20)
#define PIECE (1ul << 20)

static void attack(void) {
    unsigned long taken = 0;
    while (taken < MEMORY) {
        char *more = mmap(0, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED)
            break;
        memset(more, 1, PIECE);
        mprotect(more, PIECE, PROT_READ);
        taken += PIECE;
    }
    say("took %lu MiB", taken >> 20);
    tell_strictly("all the memory it wants, frozen", taken >= MEMORY ? 0 : -1);
}

/* Takes memory as fast as it can, and makes it read-only once it is written: setrlimit(2) then counts it no longer. */
#define STEP_MS 1
#include "glutton.h"

#include <sys/mman.h>

static int take(void) {
    for (;;) {
        char *more = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED)
            return errno;
        memset(more, 1, 1 << 20);
        mprotect(more, 1 << 20, PROT_READ);
    }
}

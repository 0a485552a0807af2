/* Allocates and writes memory, then makes it read-only, so that setrlimit(2) no longer counts it. It does so slowly; a hostile
 * app does the same fast. */
#define STEP_MS 1
#include "glutton.h"

#include <sys/mman.h>

#define SIZE (128 << 10)

static int take(void) {
    char *more = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED)
        return errno;
    memset(more, 1, SIZE);
    mprotect(more, SIZE, PROT_READ);
    return 0;
}

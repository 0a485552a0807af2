/* Allocates 10 MiB per second that setrlimit(2) counts as stack: first mappings that grow downwards, then parts of its own
 * stack that it moves and enlarges. */
#define STEP_MS 100
#include "glutton.h"

#include <stdint.h>
#include <sys/mman.h>

#define STEP (1 << 20)
#define PAGE 4096

static int take(void) {
    static char *moved = 0;
    static size_t size = PAGE;
    volatile char unused[64 * PAGE]; /* pages of the stack that are there */
    char *more = mmap(0, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    if (more != MAP_FAILED) {
        memset(more, 1, STEP);
        return 0;
    }
    memset((char *)unused, 1, sizeof unused);
    if (!moved)
        moved = (char *)(((uintptr_t)unused + PAGE) & ~(uintptr_t)(PAGE - 1));
    more = mremap(moved, size, size + STEP, MREMAP_MAYMOVE);
    if (more == MAP_FAILED)
        return errno;
    memset(more + size, 1, STEP);
    moved = more;
    size += STEP;
    return 0;
}

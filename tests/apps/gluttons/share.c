/* Allocates 20 MiB of shared memory per second, which setrlimit(2) does not count, and unmaps its pages. They stay in memory,
 * but do not count for the process. */
#define STEP_MS 50
#include "glutton.h"

#include <sys/mman.h>

static int take(void) {
    char *more = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (more == MAP_FAILED)
        return errno;
    memset(more, 1, 1 << 20);
    madvise(more, 1 << 20, MADV_DONTNEED);
    return 0;
}

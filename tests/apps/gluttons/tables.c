/* Allocates page tables: reads one page of memory in each region that has a table of its own, and writes none. It does so
 * slowly; a hostile app does the same fast. */
#define STEP_MS 1
#include "glutton.h"

#include <sys/mman.h>

#define PIECE (1ul << 30)

static int take(void) {
    static char *next = (char *)PIECE;
    char *end = next + 16 * PIECE;
    for (; next < end; next += PIECE) {
        char *page = mmap(next, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (page == MAP_FAILED)
            return errno;
        *(volatile char *)page;
    }
    return 0;
}

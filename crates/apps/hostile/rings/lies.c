/* Lies to the kernel by way of its rings (sys/src/ring/mod.rs): LIE is which. */
#include "../hostile.h"

#define HEADER 4096
#define SEND_HEAD 24
#define CAPACITY (256u << 10) /* of records */
#define KIND(kind) ((uint64_t)(kind) << 32)

enum { SEND = 1, STOP = 2, DONE = 3 };

static void lie(volatile uint64_t *memory, uint64_t capacity) {
    uint64_t at = memory[0];
    volatile uint64_t *record = memory + (HEADER + at % capacity) / 8;
    switch (LIE) {
    case 1: /* an index that runs ahead */
        at += 2 * capacity;
        break;
    case 2: /* an index that goes back */
        at -= 8;
        break;
    case 3: /* an index between two words */
        at += 4;
        break;
    case 4: /* a record without a size */
        record[0] = KIND(SEND);
        at += 64;
        break;
    case 5: /* a record that is longer than the ring */
        record[0] = KIND(SEND) | 0xfffffff8u;
        at += 64;
        break;
    case 6: /* a record of no kind */
        record[0] = KIND(4711) | 16;
        at += 16;
        break;
    case 7: /* that records are handled which it was not given */
        record[0] = KIND(DONE) | 16;
        record[1] = 4711;
        at += 16;
        break;
    case 8: /* a verdict on a record that it was not given */
        record[0] = KIND(STOP) | 16;
        record[1] = 4711;
        at += 16;
        break;
    }
    __atomic_store_n(memory, at, __ATOMIC_SEQ_CST);
}

/* Anything, anywhere. */
static void scribble(volatile uint64_t *memory, uint64_t words) {
    uint64_t random = 0x9e3779b97f4a7c15u;
    int i;
    for (i = 0; i < 2000000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        memory[i % 16 ? random % words : 0] = i % 16 ? random : random % (8 * words);
    }
}

/* The memory of the ring by which it sends: where it is given room is behind the header by as much as the
 * header says was sent. */
static volatile uint64_t *find(void) {
    uintptr_t room = (uintptr_t)host->reserve(host, 64), page = room & ~(uintptr_t)(HEADER - 1);
    uint64_t pages;
    for (pages = 0; room && pages <= CAPACITY / HEADER; pages++, page -= HEADER) {
        volatile uint64_t *memory = (volatile uint64_t *)page;
        if (room - SEND_HEAD - (page + HEADER) == memory[0] % CAPACITY)
            return memory;
    }
    return 0;
}

static void attack(void) {
    volatile uint64_t *memory = find();
    struct stat stat;
    int fd;
    if (!memory)
        return refused("a lie", "it found no ring to write");
    if (LIE == 9)
        scribble(memory, (HEADER + CAPACITY) / 8);
    else
        lie(memory, CAPACITY);
    /* The bells. */
    for (fd = 3; fd < 512; fd++)
        if (fstat(fd, &stat) == 0 && S_ISFIFO(stat.st_mode) && write(fd, "", 1) < 0)
            continue;
    sleep(1);
    got("a lie that was believed");
}

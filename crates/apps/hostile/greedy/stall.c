/* Has the monitor look at its memory, by calls that are refused, while that memory is hard to look at. */
#include "../hostile.h"

#include <pthread.h>

#define MEMORY (32u << 20)
#define SECONDS 3

static char *memory;
static volatile int over;

/* Each change locks the whole memory against readers. */
static void *change(void *nothing) {
    while (!over) {
        mprotect(memory, MEMORY, PROT_READ);
        mprotect(memory, MEMORY, PROT_READ | PROT_WRITE);
    }
    return nothing;
}

static void *call(void *nothing) {
    while (!over)
        syscall(SYS_execve, "/nowhere", 0, 0);
    return nothing;
}

static void attack(void) {
    pthread_t threads[32];
    int made = 0;
    memory = mmap(0, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    memset(memory, 1, MEMORY);
    while (made < 32 && pthread_create(&threads[made], 0, made % 2 ? change : call, 0) == 0)
        made++;
    sleep(SECONDS);
    over = 1;
    while (made > 0)
        pthread_join(threads[--made], 0);
}

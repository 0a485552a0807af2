/* Ends the thread that hosts it, and leaves another behind, so that the process goes on. */
#include "../hostile.h"

#include <pthread.h>

static void *stay(void *nothing) {
    for (;;)
        pause();
    return nothing;
}

static void attack(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, stay, 0) == 0)
        syscall(SYS_exit, 0);
}

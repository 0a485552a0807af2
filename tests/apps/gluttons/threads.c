/* Starts threads and keeps them. */
#define STEP_MS 20
#include "glutton.h"

#include <pthread.h>
#include <unistd.h>

static void *stay(void *nothing) {
    for (;;)
        usleep(1000000);
    return nothing;
}

static int take(void) {
    pthread_t thread;
    return pthread_create(&thread, 0, stay, 0);
}

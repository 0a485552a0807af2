/* Interrupts the thread that hosts it, between two calls, by a signal whose handler never returns. */
#include "../hostile.h"

#include <pthread.h>

static pid_t thread_of_host;

static void never_return(int signal) {
    (void)signal;
    for (volatile int endless = 1; endless;)
        ;
}

static void *interrupt(void *nothing) {
    usleep(200000);
    syscall(SYS_tgkill, getpid(), thread_of_host, SIGUSR1);
    return nothing;
}

static void attack(void) {
    pthread_t thread;
    thread_of_host = (pid_t)syscall(SYS_gettid);
    signal(SIGUSR1, never_return);
    pthread_create(&thread, 0, interrupt, 0);
}

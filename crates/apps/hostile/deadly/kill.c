/* Kills itself, as the system would for want of memory. */
#include "../hostile.h"

static void attack(void) {
    kill(getpid(), SIGKILL);
}

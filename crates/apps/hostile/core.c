/* Leaves its memory, and what it shares, in a file. */
#include "hostile.h"

#include <sys/prctl.h>
#include <sys/resource.h>

static void attack(void) {
    struct rlimit limit = {1 << 20, 1 << 20};
    tell("a limit for core dumps", setrlimit(RLIMIT_CORE, &limit));
    tell("being dumpable", prctl(PR_SET_DUMPABLE, 1));
}

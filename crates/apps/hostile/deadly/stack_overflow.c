/* Calls itself until there is no more stack. */
#include "../hostile.h"

static int deeper(volatile int depth) {
    volatile char frame[4096];
    frame[0] = (char)depth;
    return depth < 0 ? 0 : frame[0] + deeper(depth + 1);
}

static void attack(void) {
    say("came back from %d", deeper(0));
}

/* Talks without end. */
#include "../hostile.h"

static void attack(void) {
    int i;
    for (i = 0; i < 20000; i++)
        say("and another thing, the %dth", i);
    usleep(200000);
}

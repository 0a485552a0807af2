/* Talks without end. */
#include "../hostile.h"

static void attack(void) {
    int i;
    for (i = 0; i < 20000; i++)
        say("and another thing, the %dth", i);
    sleep(2); /* so that its last word is heard */
}

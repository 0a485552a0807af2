/* Never comes back. */
#include "../hostile.h"

static void attack(void) {
    for (volatile int endless = 1; endless;)
        ;
}

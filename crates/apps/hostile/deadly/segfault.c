/* Writes where there is nothing. */
#include "../hostile.h"

static void attack(void) {
    *(volatile int *)8 = 1;
}

/* Breaks off. */
#include "../hostile.h"

static void attack(void) {
    abort();
}

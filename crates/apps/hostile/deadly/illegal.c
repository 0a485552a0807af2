/* Does what the processor does not know. */
#include "../hostile.h"

static void attack(void) {
    __builtin_trap();
}

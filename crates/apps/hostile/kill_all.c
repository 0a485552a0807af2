/* Signals everybody it can. Signal 0: whether it may, without doing it. */
#include "hostile.h"

static void attack(void) {
    tell_strictly("kill of everybody", kill(-1, 0));
    tell_strictly("kill of the process group", kill(0, 0));
}

/* Watches the processor while others compute. */
#include "hostile.h"

static void attack(void) {
    tell("perf_event_open", syscall(SYS_perf_event_open, 0, 0, -1, -1, 0));
}

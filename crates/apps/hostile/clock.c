/* Sets the clock to its present time. */
#include "hostile.h"

#include <sys/timex.h>

static void attack(void) {
    struct timex timex;
    memset(&timex, 0, sizeof timex);
    if (adjtimex(&timex) >= 0)
        timex.modes = ADJ_STATUS;
    tell("adjtimex", adjtimex(&timex));
    tell("clock_adjtime", syscall(SYS_clock_adjtime, 0, &timex));
}

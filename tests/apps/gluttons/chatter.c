/* Writes more and more lines to the log. */
#define STEP_MS 10
#include "glutton.h"

static int take(void) {
    int i;
    for (i = 0; i < 100; i++)
        say("chatter %d", taken);
    return 0;
}

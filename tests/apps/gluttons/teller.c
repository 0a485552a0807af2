/* Logs 1000 numbered lines per second. */
#define STEP_MS 10
#include "glutton.h"

static int take(void) {
    static int lines;
    int i;
    for (i = 0; i < 10; i++)
        say("line %d of the teller, and some more so that it has the length of a line", lines++);
    return 0;
}

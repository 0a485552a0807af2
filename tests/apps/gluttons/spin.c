/* Uses all available processor time, and still handles its events. */
#define STEP_MS 0
#include "glutton.h"

static int take(void) {
    static volatile unsigned count;
    unsigned end = count + 10000000;
    while (count != end)
        count++;
    return 0;
}

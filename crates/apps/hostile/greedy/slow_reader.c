/* Handles every record slowly. */
#define HEARS_ANSWERS
#include "../hostile.h"

static void attack(void) {}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    static int begun;
    (void)app;
    if (!begun && beginning(batch)) {
        begun = 1;
        say("DONE");
    }
    if (begun && batch->count > 0) {
        usleep(100000);
        answer->handled = 1;
    }
    return 0;
}

/* Says that it cannot go on, as a Rust app that panics does. */
#define HEARS_ANSWERS
#include "../hostile.h"

static void attack(void) {}

static int32_t on_batch(void *app, const struct rosemary_batch *batch,
                        struct rosemary_answer *answer) {
    (void)app;
    (void)answer;
    return beginning(batch) ? ROSEMARY_FAILED : 0;
}

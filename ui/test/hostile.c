/* An app that prints a line with HTML when it starts, and nothing more. */
#include <stdio.h>

#include "rosemary_app.h"

static void *create(const struct rosemary_host *host) {
    static int app;
    (void)host;
    printf("<img src=x onerror=\"window.hacked='log'\"><script>window.hacked='log'</script>\n");
    fflush(stdout);
    return &app;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    (void)app;
    (void)batch;
    (void)answer;
    return 0;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_app),
    .name = "hostile",
    .version = "<b>1</b>",
    .create = create,
    .on_batch = on_batch,
    .destroy = destroy,
};

/* An app that prints a line with HTML when it starts, and publishes a page that tries to act as the operator. */
#include <stdio.h>

#include "rosemary_http.h"

static const struct rosemary_host *host;

static const char page[] =
    "<!doctype html><title>hostile</title><h1>hostile</h1><script>document.title = 'hacked';"
    "fetch('http://127.0.0.1:8181/api/v1/apps/forwarding/stop', {method: 'POST'});</script>"
    "<img src='http://127.0.0.1:8181/api/v1/apps' onerror=\"document.title = 'hacked'\">"
    "<form action='http://127.0.0.1:8181/api/v1/apps/forwarding/stop' method=post><button>Stop</button></form>"
    "<iframe src='http://127.0.0.1:8181/'></iframe>";

static void *create(const struct rosemary_host *given) {
    static int app;
    host = given;
    printf("<img src=x onerror=\"window.hacked='log'\"><script>window.hacked='log'</script>\n");
    fflush(stdout);
    return &app;
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *answer) {
    (void)app;
    (void)answer;
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->records[i]->kind == ROSEMARY_HTTP)
            rosemary_http_respond(host, batch->records[i], 200, "text/html", page, sizeof page - 1);
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

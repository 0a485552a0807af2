/* Wants a flow in every switch, from port 1 to port 2. The example of docs/apps.md. */
#include "rosemary_wanted.h"

struct mirror {
    const struct rosemary_host *host;
    struct rosemary_wanted *wanted;
};

static int32_t start(struct mirror *app) {
    struct rosemary_flow flow;

    app->wanted = rosemary_wanted_create(app->host, NULL);
    memset(&flow, 0, sizeof flow);
    flow.match.in_port = 1;
    flow.priority = 7;
    flow.output = 2;
    return rosemary_want_flow(app->wanted, ROSEMARY_EVERY_SWITCH, &flow) < 0 ? ROSEMARY_WRONG : 0;
}

static void end(struct mirror *app) { rosemary_wanted_free(app->wanted); }

static int32_t on_record(struct mirror *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    return rosemary_wanted_on_record(app->wanted, record, turn->now_ns, turn->wake_at_ns);
}

ROSEMARY_INSTANCE_WITH(struct mirror, start, end)
ROSEMARY_RECORDS(struct mirror, on_record)
ROSEMARY_TABLE_OF_APP("mirror", "0.1.0", rosemary_on_batch)

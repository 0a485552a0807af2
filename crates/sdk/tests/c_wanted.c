/*
 * Wants what packets tell it, as the app in Rust of wanted/world.rs does. A packet has five bytes: what to do, the datapath id (0:
 * all switches), the number in two bytes, and the variation. Packets of another size test bad input: the first byte is the case.
 */
#include "rosemary_wanted.h"

_Static_assert(sizeof(struct rosemary_wanted_settings) == 56, "as in convert.rs");
_Static_assert(sizeof(struct rosemary_wanted_exception) == 24, "as in convert.rs");
_Static_assert(sizeof(struct rosemary_wanted_notice) == 24, "as in convert.rs");

struct wisher {
    const struct rosemary_host *host;
    struct rosemary_wanted *wanted;
    uint32_t notices;
    uint8_t declares, drops_others;
};

static int has(const struct rosemary_host *host, const char *word) {
    const size_t size = strlen(word);

    for (size_t i = 0; i + size <= host->config_size; i++)
        if (memcmp(host->config + i, word, size) == 0)
            return 1;
    return 0;
}

static void finish(struct rosemary_builder *to) { rosemary_put16(to->bytes + 2, to->size); }

/* The flow of a number, for which `priority` is 3; its output says which variation. */
static uint32_t flow_of(uint8_t *bytes, uint32_t room, uint16_t number, uint8_t variation) {
    const uint8_t ip[4] = {10, 0, (uint8_t)(number >> 8), (uint8_t)number};
    struct rosemary_flow flow;
    struct rosemary_builder to;

    memset(&flow, 0, sizeof flow);
    flow.match.eth_type = 0x0800;
    flow.match.ipv4_dst = ip;
    flow.priority = 3;
    flow.output = variation + 1u;
    rosemary_wanted_encode(&to, bytes, room, &flow);
    rosemary_put32(bytes + 12, number); /* the cookie */
    return to.size;
}

static uint32_t group_of(uint8_t *bytes, uint32_t room, uint32_t number, uint8_t variation) {
    struct rosemary_builder to;

    rosemary_build(&to, bytes, room);
    rosemary_add32(&to, 0x040f0000u); /* OFPT_GROUP_MOD */
    rosemary_add32(&to, 0);
    rosemary_add32(&to, 0); /* to add; a group of kind "all" */
    rosemary_add32(&to, number);
    rosemary_add16(&to, 32); /* a bucket */
    rosemary_add16(&to, 0);
    rosemary_add32(&to, 0xffffffffu); /* neither a port nor a group to watch */
    rosemary_add32(&to, 0xffffffffu);
    rosemary_add32(&to, 0);
    rosemary_add_output(&to, 4, variation + 1u);
    finish(&to);
    return to.size;
}

static uint32_t meter_of(uint8_t *bytes, uint32_t room, uint32_t number, uint8_t rate) {
    struct rosemary_builder to;

    rosemary_build(&to, bytes, room);
    rosemary_add32(&to, 0x041d0000u); /* OFPT_METER_MOD */
    rosemary_add32(&to, 0);
    rosemary_add32(&to, 1); /* to add; in kbit/s */
    rosemary_add32(&to, number);
    rosemary_add32(&to, 0x00010010u); /* a band that drops */
    rosemary_add32(&to, rate);
    rosemary_add32(&to, 0);
    rosemary_add32(&to, 0);
    finish(&to);
    return to.size;
}

/* A flow of priority 4 through the group of the number and meter 1. */
static uint32_t metered_of(uint8_t *bytes, uint32_t room, uint16_t number) {
    struct rosemary_builder to;
    const uint32_t size = flow_of(bytes, room, number, 0) - 24; /* without its instruction */

    rosemary_build(&to, bytes, room);
    to.size = size;
    rosemary_put16(bytes + 30, 4); /* the priority */
    rosemary_add32(&to, 0x00060008u);
    rosemary_add32(&to, 1);
    rosemary_add32(&to, 0x00040010u);
    rosemary_add32(&to, 0);
    rosemary_add32(&to, 0x00160008u);
    rosemary_add32(&to, number);
    finish(&to);
    return to.size;
}

static int32_t wish(struct wisher *app, const uint8_t *packet, uint64_t now_ns) {
    const uint64_t dpid = packet[1] ? packet[1] : ROSEMARY_EVERY_SWITCH;
    const uint16_t number = rosemary_get16(packet + 2);
    uint8_t bytes[256];

    switch (packet[0]) {
    case 0:
        return rosemary_wanted_flow(app->wanted, dpid, bytes, flow_of(bytes, sizeof bytes, number, packet[4]));
    case 1:
        return rosemary_wanted_drop_flow(app->wanted, dpid, bytes, flow_of(bytes, sizeof bytes, number, 0));
    case 2:
        return rosemary_wanted_group(app->wanted, dpid, bytes, group_of(bytes, sizeof bytes, number, packet[4]));
    case 3:
        return rosemary_wanted_drop_group(app->wanted, dpid, number);
    case 4:
        return rosemary_wanted_meter(app->wanted, dpid, bytes, meter_of(bytes, sizeof bytes, number, packet[4]));
    case 5:
        return rosemary_wanted_drop_meter(app->wanted, dpid, number);
    case 6:
        return rosemary_wanted_flow(app->wanted, dpid, bytes, metered_of(bytes, sizeof bytes, number));
    case 7:
        return rosemary_wanted_keep_only_declared(app->wanted);
    case 9:
        return rosemary_wanted_check(app->wanted, dpid, now_ns);
    default:
        rosemary_logf(app->host, ROSEMARY_LOG_INFO, "settled %d loaded %d saved %d count %d failure %s",
                      rosemary_wanted_is_settled(app->wanted, dpid), rosemary_wanted_is_loaded(app->wanted),
                      rosemary_wanted_is_saved(app->wanted), rosemary_wanted_count(app->wanted),
                      rosemary_wanted_save_failure(app->wanted) ? rosemary_wanted_save_failure(app->wanted) : "none");
        return 0;
    }
}

static void on_notice(void *context, const struct rosemary_wanted_notice *notice) {
    struct wisher *app = (struct wisher *)context;

    app->notices++;
    if (notice->kind == ROSEMARY_WANTED_LOADED && app->drops_others)
        (void)rosemary_wanted_keep_only_declared(app->wanted);
    rosemary_logf(app->host, ROSEMARY_LOG_INFO, "kind %u of %llu: %s", notice->kind, (unsigned long long)notice->dpid,
                  notice->text);
}

static void expect(struct wisher *app, const char *what, int32_t result) {
    rosemary_logf(app->host, ROSEMARY_LOG_INFO, "%s: %d, %s", what, result, rosemary_wanted_error(app->wanted));
}

/* Every mistake that a function can notice. The changed bytes are those of a valid flow-mod. */
static void make_mistakes(struct wisher *app, struct rosemary_turn *turn) {
    static uint8_t bytes[70000];
    const uint32_t size = flow_of(bytes, sizeof bytes, 1, 0);
    struct rosemary_wanted *wanted = app->wanted;
    struct rosemary_wanted_settings settings = rosemary_wanted_usual();
    const struct rosemary_wanted_exception exception = {0, 0, 256, 0};
    struct rosemary_record shorter;
    uint64_t wake_at_ns = UINT64_MAX;

    expect(app, "NULL message", rosemary_wanted_flow(wanted, 1, NULL, 80));
    expect(app, "no flow", rosemary_want_flow(wanted, 1, NULL));
    expect(app, "empty", rosemary_wanted_flow(wanted, 1, bytes, 0));
    for (uint32_t cut = 0; cut < size; cut++)
        if (rosemary_wanted_flow(wanted, 1, bytes, cut) != ROSEMARY_WRONG ||
            rosemary_wanted_drop_flow(wanted, 1, bytes, cut) != ROSEMARY_WRONG)
            rosemary_logf(app->host, ROSEMARY_LOG_ERROR, "%u bytes are a flow", cut);
    expect(app, "longer", rosemary_wanted_flow(wanted, 1, bytes, size + 8));
    expect(app, "too long", rosemary_wanted_flow(wanted, 1, bytes, sizeof bytes));
    expect(app, "flow as group", rosemary_wanted_group(wanted, 1, bytes, size));
    expect(app, "flow as meter", rosemary_wanted_meter(wanted, 1, bytes, size));
    bytes[0] = 9;
    expect(app, "version", rosemary_wanted_flow(wanted, 1, bytes, size));
    bytes[0] = 4;
    bytes[25] = 3;
    expect(app, "delete", rosemary_wanted_flow(wanted, 1, bytes, size));
    bytes[25] = 0;
    bytes[27] = 1;
    expect(app, "timeout", rosemary_wanted_flow(wanted, 1, bytes, size));
    bytes[27] = 0;
    bytes[51] = 3; /* the match's length */
    expect(app, "match", rosemary_wanted_flow(wanted, 1, bytes, size));

    memset(&shorter, 0, sizeof shorter);
    shorter.size = sizeof shorter - 1;
    shorter.kind = ROSEMARY_SWITCH_UP;
    expect(app, "short record", rosemary_wanted_on_record(wanted, &shorter, turn->now_ns, &wake_at_ns));
    expect(app, "no wake", rosemary_wanted_on_record(wanted, NULL, turn->now_ns, NULL));

    expect(app, "no library", rosemary_wanted_flow(NULL, 1, bytes, size));
    expect(app, "no library", rosemary_wanted_drop_group(NULL, 1, 1));
    expect(app, "no library", rosemary_wanted_is_saved(NULL));
    expect(app, "no library", rosemary_wanted_on_record(NULL, NULL, 0, turn->wake_at_ns));
    rosemary_logf(app->host, ROSEMARY_LOG_INFO, "%s", rosemary_wanted_error(NULL));
    if (rosemary_wanted_save_failure(NULL) || rosemary_wanted_create(NULL, NULL))
        rosemary_logf(app->host, ROSEMARY_LOG_ERROR, "there is something");
    rosemary_wanted_free(NULL);

    settings.size--;
    if (rosemary_wanted_create(app->host, &settings))
        rosemary_logf(app->host, ROSEMARY_LOG_ERROR, "the size is accepted");
    settings = rosemary_wanted_usual();
    settings.owns = 2;
    if (rosemary_wanted_create(app->host, &settings))
        rosemary_logf(app->host, ROSEMARY_LOG_ERROR, "the owner is accepted");
    settings = rosemary_wanted_usual();
    settings.keep = 2;
    if (rosemary_wanted_create(app->host, &settings))
        rosemary_logf(app->host, ROSEMARY_LOG_ERROR, "the switch is accepted");
    settings = rosemary_wanted_usual();
    settings.exception_count = 1;
    if (rosemary_wanted_create(app->host, &settings))
        rosemary_logf(app->host, ROSEMARY_LOG_ERROR, "missing exceptions are accepted");
    settings.exceptions = &exception;
    if (rosemary_wanted_create(app->host, &settings))
        rosemary_logf(app->host, ROSEMARY_LOG_ERROR, "the table is accepted");
    settings.exception_count = 1025;
    if (rosemary_wanted_create(app->host, &settings))
        rosemary_logf(app->host, ROSEMARY_LOG_ERROR, "1025 exceptions are accepted");
    expect(app, "count", rosemary_wanted_count(wanted));
}

static int32_t on_record(struct wisher *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    if (record && record->kind == ROSEMARY_PACKET_IN) {
        if (record->data_size == 5)
            (void)wish(app, rosemary_packet(record), turn->now_ns);
        else
            make_mistakes(app, turn);
    }
    return rosemary_wanted_on_record(app->wanted, record, turn->now_ns, turn->wake_at_ns);
}

static int32_t start(struct wisher *app) {
    static const struct rosemary_wanted_exception exception = {0x70, 0xf0, 0, 0};
    struct rosemary_wanted_settings settings = rosemary_wanted_usual();

    settings.owns = has(app->host, "all") ? ROSEMARY_OWNS_ALL : ROSEMARY_OWNS_DECLARED;
    settings.at_once = (uint8_t)has(app->host, "at-once");
    settings.dry_run = (uint8_t)has(app->host, "dry-run");
    settings.keep = !has(app->host, "forget");
    settings.exception_count = (uint32_t)has(app->host, "except");
    settings.exceptions = &exception;
    settings.on_notice = has(app->host, "quiet") ? NULL : on_notice;
    settings.context = app;
    app->drops_others = (uint8_t)has(app->host, "only");
    app->wanted = rosemary_wanted_create(app->host, &settings);
    if (!app->wanted)
        return ROSEMARY_WRONG;
    for (uint8_t number = 0; number < 2 && has(app->host, "declare"); number++) {
        const uint8_t packet[5] = {0, 0, 0, number, 0};
        if (wish(app, packet, 0) < 0)
            return ROSEMARY_WRONG;
    }
    return 0;
}

static void end(struct wisher *app) { rosemary_wanted_free(app->wanted); }

static void *create(const struct rosemary_host *host) {
    struct wisher *app = (struct wisher *)calloc(1, sizeof *app);

    if (!app)
        return NULL;
    app->host = host;
    if (start(app) == 0)
        return app;
    end(app);
    free(app);
    return NULL;
}

static void destroy(void *app) {
    end((struct wisher *)app);
    free(app);
}

ROSEMARY_RECORDS(struct wisher, on_record)

const struct rosemary_app rosemary_app = {
    ROSEMARY_ABI, sizeof(struct rosemary_app), "wisher", "1", create, rosemary_on_batch, destroy};

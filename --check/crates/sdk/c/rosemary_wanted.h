/*
 * Wanted flows, groups and meters for apps in C. The app declares an entry once, for one switch or for all. The library adds it,
 * keeps it in the service `storage`, and restores it after a restart of a switch, of the app, of the kernel or of Rosemary.
 *
 *     struct mirror {
 *         const struct rosemary_host *host;
 *         struct rosemary_wanted *wanted;
 *     };
 *
 *     static int32_t start(struct mirror *app) {
 *         struct rosemary_flow flow;
 *
 *         app->wanted = rosemary_wanted_create(app->host, NULL);
 *         memset(&flow, 0, sizeof flow);
 *         flow.match.in_port = 1;
 *         flow.priority = 7;
 *         flow.output = 2;
 *         return rosemary_want_flow(app->wanted, ROSEMARY_EVERY_SWITCH, &flow) < 0 ? ROSEMARY_WRONG : 0;
 *     }
 *
 *     static void end(struct mirror *app) { rosemary_wanted_free(app->wanted); }
 *
 *     static int32_t on_record(struct mirror *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
 *         return rosemary_wanted_on_record(app->wanted, record, turn->now_ns, turn->wake_at_ns);
 *     }
 *
 *     ROSEMARY_INSTANCE_WITH(struct mirror, start, end)
 *     ROSEMARY_RECORDS(struct mirror, on_record)
 *     ROSEMARY_TABLE_OF_APP("mirror", "0.1.0", rosemary_on_batch)
 *
 * The app is linked with librosemary_wanted.a, which is the library of apps in Rust (`rosemary_sdk::wanted`). Its directory is
 * lib/rosemary of an installation (/usr/lib/rosemary, /usr/local/lib/rosemary), or target/debug/examples of the sources:
 *
 *     cc -shared -fPIC -o libmirror.so mirror.c -L/usr/lib/rosemary -lrosemary_wanted -Wl,--gc-sections -Wl,--exclude-libs,ALL
 *
 * The app needs the capabilities `flow.write` and `stats.read`, `group.write` and `meter.write` for groups and meters, and
 * `services = ["storage"]`.
 *
 * Rules for callers:
 *   - The library is used in the calls of its app (`create`, `on_batch`, `destroy`), in their thread. Each instance has its own.
 *   - Transaction ids of the app are below ROSEMARY_FIRST_LIBRARY_XID. The library uses the others.
 *   - Bit 47 of a flow's cookie marks flows of the library. The app uses the 47 bits below, or 48 with ROSEMARY_OWNS_ALL.
 *
 * Results: a function that returns int32_t returns 0 or more, or
 *   - ROSEMARY_WRONG: an argument cannot be used, and nothing has changed. The library has logged why and what to do;
 *     rosemary_wanted_error has the text. A `wanted` that is NULL gives this result, too, and no line in the log.
 *   - ROSEMARY_BROKEN: the library has panicked, as the log says. All later calls return this. The app returns it from
 *     `on_record` (ROSEMARY_FAILED from `on_batch`): no message of the batch is sent, and Rosemary restarts the app.
 */
#ifndef ROSEMARY_WANTED_H
#define ROSEMARY_WANTED_H

#include "rosemary_messages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As a datapath id: all switches. A switch with this id cannot be named alone. */
#define ROSEMARY_EVERY_SWITCH UINT64_MAX

/* As a table: all tables. */
#define ROSEMARY_EVERY_TABLE 0xffu

/* The first transaction id of the library's messages. */
#define ROSEMARY_FIRST_LIBRARY_XID 0x80000000u

/* The wanted entries of an app. */
struct rosemary_wanted;

/* Which flows the library removes if they are not wanted. */
enum {
    /* Those that the library has added. Groups and meters that were wanted once. */
    ROSEMARY_OWNS_DECLARED = 0,
    /* All flows of the app. Groups and meters, too, with `groups_and_meters`. */
    ROSEMARY_OWNS_ALL = 1
};

/* Flows that are never removed. */
struct rosemary_wanted_exception {
    uint64_t cookie;      /* those whose cookie has this value */
    uint64_t cookie_mask; /* under this mask; 0: any cookie */
    uint32_t table;       /* those of this table, or ROSEMARY_EVERY_TABLE */
    uint32_t reserved;
};

/* The kind of a notice. Ignore kinds that you do not know. */
enum {
    ROSEMARY_WANTED_RECONCILED = 1, /* the switch has what is wanted */
    ROSEMARY_WANTED_DIFFERENCE = 2, /* with `dry_run`: what would be done */
    ROSEMARY_WANTED_FAILED = 3,     /* an entry was not accepted */
    ROSEMARY_WANTED_FULL = 4,       /* the switch has no room; the library tries again later */
    ROSEMARY_WANTED_BLIND = 5,      /* the library cannot read the switch: it adds entries and removes none */
    ROSEMARY_WANTED_NOT_KEPT = 6,   /* the entries are not in the storage */
    ROSEMARY_WANTED_LOADED = 7      /* the entries of earlier instances were read from the storage */
};

/* Something that an app may log or act on. */
struct rosemary_wanted_notice {
    uint32_t kind;        /* ROSEMARY_WANTED_* */
    uint32_t reserved;
    uint64_t dpid;        /* the switch; 0 if the notice is about none */
    const char *text;     /* the description; it lives until the callback returns */
};

/* How the library works. rosemary_wanted_usual returns the usual settings. */
struct rosemary_wanted_settings {
    uint32_t size;        /* sizeof(struct rosemary_wanted_settings) */
    uint32_t owns;        /* ROSEMARY_OWNS_* */
    const struct rosemary_wanted_exception *exceptions; /* flows that are never removed */
    uint32_t exception_count;   /* at most 1024 */
    uint32_t messages_per_turn; /* most messages that one call sends; 256; 0 is 1 */
    uint64_t check_every_ns;    /* period of routine readings of a switch; 0: none */
    uint8_t groups_and_meters;  /* 1 with ROSEMARY_OWNS_ALL: unwanted groups and meters are removed, too */
    uint8_t keep;               /* 1: the entries are kept in the storage; usual */
    uint8_t at_once;            /* 1, for guards: all entries are sent to a switch that connects or has lost flows before
                                   the switch is read */
    uint8_t dry_run;            /* 1: the difference is only reported */
    uint32_t reserved;
    /* Receives the notices. NULL: the library logs them. It may call the library, except for rosemary_wanted_on_record and
     * rosemary_wanted_free. It must return: no longjmp, no exception of C++. */
    void (*on_notice)(void *context, const struct rosemary_wanted_notice *notice);
    void *context;              /* for `on_notice` */
};

static inline struct rosemary_wanted_settings rosemary_wanted_usual(void) {
    struct rosemary_wanted_settings settings;

    memset(&settings, 0, sizeof settings);
    settings.size = sizeof settings;
    settings.messages_per_turn = 256;
    settings.keep = 1;
    return settings;
}

/* Creates the library without entries; `settings` NULL: the usual ones. Call it in `create`, as ROSEMARY_INSTANCE_WITH does.
 * Returns NULL after it has logged why it cannot. */
struct rosemary_wanted *rosemary_wanted_create(const struct rosemary_host *host,
                                               const struct rosemary_wanted_settings *settings);

/* Frees it; NULL is allowed. The entries stay in the switches and in the storage. */
void rosemary_wanted_free(struct rosemary_wanted *wanted);

/* Handles a record, or a wake-up if it is NULL: sends messages, sets `*wake_at_ns` to an earlier time if it needs one, and calls
 * `on_notice`. The app calls it once for each record and wake-up, after its own work: if `on_record` returns ROSEMARY_FULL, it
 * returns that before this call. */
int32_t rosemary_wanted_on_record(struct rosemary_wanted *wanted, const struct rosemary_record *record, uint64_t now_ns,
                                  uint64_t *wake_at_ns);

/* Declares an entry by the whole message of OpenFlow, in any version, that adds it; switches of each version that can express it get it. It replaces a
 * wanted entry of the same table, priority and match, or of the same number. Priorities, groups and meters count from 0, as
 * the app counts them, so the host's `lowest_priority`, `first_group` and `first_meter` are not added. The transaction id is
 * ignored. 1, or 0 if that changes nothing. The next rosemary_wanted_on_record sends it: outside of on_record, for instance in
 * on_timer, set `*turn->wake_at_ns = turn->now_ns` after a declaration, so that on_record is called. */
int32_t rosemary_wanted_flow(struct rosemary_wanted *wanted, uint64_t dpid, const void *message, uint32_t size);
int32_t rosemary_wanted_group(struct rosemary_wanted *wanted, uint64_t dpid, const void *message, uint32_t size);
int32_t rosemary_wanted_meter(struct rosemary_wanted *wanted, uint64_t dpid, const void *message, uint32_t size);

/* No longer wants an entry; the library removes it from the switches. Only the table, priority and match of the flow-mod are compared.
 * A switch removes the flows that use a group or meter with it. 1 if the entry was wanted, else 0. */
int32_t rosemary_wanted_drop_flow(struct rosemary_wanted *wanted, uint64_t dpid, const void *message, uint32_t size);
int32_t rosemary_wanted_drop_group(struct rosemary_wanted *wanted, uint64_t dpid, uint32_t number);
int32_t rosemary_wanted_drop_meter(struct rosemary_wanted *wanted, uint64_t dpid, uint32_t number);

/* No longer wants the entries that the app has not declared since it started. For an app that declares everything at its start;
 * it calls this at ROSEMARY_WANTED_LOADED. */
int32_t rosemary_wanted_keep_only_declared(struct rosemary_wanted *wanted);

/* For one switch: whether it is connected, and no message of the library waits to be sent to it or to be confirmed by it. */
int32_t rosemary_wanted_is_settled(struct rosemary_wanted *wanted, uint64_t dpid);

/* Whether the entries that earlier instances have kept are known. */
int32_t rosemary_wanted_is_loaded(struct rosemary_wanted *wanted);

/* Whether every declaration is in the storage. */
int32_t rosemary_wanted_is_saved(struct rosemary_wanted *wanted);

/* The number of wanted entries, with notes about earlier groups and meters. */
int32_t rosemary_wanted_count(struct rosemary_wanted *wanted);

/* Reads one switch as soon as nothing else is underway there, and restores or, with `dry_run`, reports the difference. */
int32_t rosemary_wanted_check(struct rosemary_wanted *wanted, uint64_t dpid, uint64_t now_ns);

/* Why the storage refused the last request, as a phrase; NULL if it did not, or if `wanted` is NULL or broken. It lives until the next call with `wanted`. */
const char *rosemary_wanted_save_failure(struct rosemary_wanted *wanted);

/* The reason of the last ROSEMARY_WRONG or ROSEMARY_BROKEN; empty if there was none. It lives until the next call with
 * `wanted`. */
const char *rosemary_wanted_error(struct rosemary_wanted *wanted);

/* Encodes a flow of table 0 as a flow-mod that adds it. */
static inline void rosemary_wanted_encode(struct rosemary_builder *to, void *bytes, uint32_t room,
                                          const struct rosemary_flow *flow) {
    rosemary_build(to, bytes, room);
    rosemary_add32(to, 0x040e0000u); /* OpenFlow 1.3, OFPT_FLOW_MOD */
    rosemary_add32(to, 0);
    rosemary_add_flow_mod(to, 4, flow, flow->priority, 0);
    if (!to->full)
        rosemary_put16(to->bytes + 2, to->size);
}

/* Declares a flow of table 0. A flow with a timeout is ROSEMARY_WRONG. As rosemary_wanted_flow. */
static inline int32_t rosemary_want_flow(struct rosemary_wanted *wanted, uint64_t dpid,
                                         const struct rosemary_flow *flow) {
    uint8_t bytes[256];
    struct rosemary_builder to;

    if (!flow)
        return rosemary_wanted_flow(wanted, dpid, NULL, 0);
    rosemary_wanted_encode(&to, bytes, sizeof bytes, flow);
    return rosemary_wanted_flow(wanted, dpid, bytes, to.size);
}

/* No longer wants a flow of table 0. As rosemary_wanted_drop_flow. */
static inline int32_t rosemary_unwant_flow(struct rosemary_wanted *wanted, uint64_t dpid,
                                           const struct rosemary_flow *flow) {
    uint8_t bytes[256];
    struct rosemary_builder to;

    if (!flow)
        return rosemary_wanted_drop_flow(wanted, dpid, NULL, 0);
    rosemary_wanted_encode(&to, bytes, sizeof bytes, flow);
    return rosemary_wanted_drop_flow(wanted, dpid, bytes, to.size);
}

#ifdef __cplusplus
}
#endif
#endif

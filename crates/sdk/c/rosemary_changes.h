/*
 * Change sets for apps in C: flow-mods, group-mods and meter-mods that one switch applies wholly or not at all, where the switch
 * can do that. docs/change-sets.md explains the guarantees.
 *
 *     static int32_t replace(struct my_app *app, const struct rosemary_record *record) {
 *         struct rosemary_changes set;
 *
 *         if (rosemary_changes_begin(&set, app->host, record, 4096) != 0)
 *             return ROSEMARY_FULL;
 *         rosemary_changes_add_flow(&set, &app->new_flow);
 *         rosemary_changes_delete_cookie(&set, app->old_cookie);
 *         return rosemary_commit(&set, ++app->last_set);
 *     }
 *
 *     static int32_t on_committed(struct my_app *app, const struct rosemary_committed *result, struct rosemary_turn *turn) {
 *         if (!result->is_applied)
 *             ...
 *     }
 *
 *     ROSEMARY_EXPORT_WITH_CHANGES("my-app", "0.1.0", struct my_app, on_record, on_committed)
 *
 * Between rosemary_changes_begin and rosemary_commit the app sends no other message. A set that is not committed has no effect.
 */
#ifndef ROSEMARY_CHANGES_H
#define ROSEMARY_CHANGES_H

#include "rosemary_messages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A change set that is being written. */
struct rosemary_changes {
    const struct rosemary_host *host;
    struct rosemary_builder to;
    uint64_t dpid;
    uint32_t epoch;
    uint32_t count; /* changes so far */
    int32_t result; /* of the first change that could not be added */
    uint8_t version;
};

/* The outcome of a change set, for `on_committed`. */
struct rosemary_committed {
    uint64_t dpid;
    uint32_t epoch;
    uint32_t set;        /* the number that rosemary_commit had */
    uint8_t outcome;     /* ROSEMARY_SET_* */
    uint8_t is_applied;  /* 1: the switch has applied all changes */
    uint8_t is_partial;  /* 1: the set failed, and changes of it may have been applied */
    uint8_t refused;     /* with ROSEMARY_SET_REFUSED: the reason, ROSEMARY_REFUSED_* */
    uint32_t outside;    /* with ROSEMARY_SET_ATOMIC: number of changes that were applied before or after the atomic step */
    uint32_t index;      /* the change that was refused, counted from 0; UINT32_MAX: the set as a whole */
    uint16_t error_type; /* with ROSEMARY_SET_FAILED: the error of the switch */
    uint16_t error_code;
    const char *text;    /* with ROSEMARY_SET_REFUSED: what would admit the change, not terminated; it lives as long as the record */
    uint32_t text_size;
};

/* Begins a set for the switch of `record`, with room for changes of `room` bytes. 0, or ROSEMARY_FULL if there is no room now, or
 * ROSEMARY_WRONG, after it has logged why, if a set cannot be that long. */
static inline int32_t rosemary_changes_begin(struct rosemary_changes *set, const struct rosemary_host *host,
                                             const struct rosemary_record *record, uint32_t room) {
    void *bytes;

    memset(set, 0, sizeof *set);
    set->host = host;
    set->dpid = record->dpid;
    set->epoch = record->epoch;
    set->version = record->version;
    if (room > ROSEMARY_MAX_CHANGE_SET - 8) {
        rosemary_logf(host, ROSEMARY_LOG_ERROR, "a change set of %u bytes: the most is %u", room,
                      (unsigned)ROSEMARY_MAX_CHANGE_SET - 8);
        return set->result = ROSEMARY_WRONG;
    }
    bytes = host->reserve(host, room + 8);
    if (!bytes)
        return set->result = ROSEMARY_FULL;
    rosemary_build(&set->to, bytes, room + 8);
    rosemary_add_zeros(&set->to, 8); /* reserved bytes, and the number of the set */
    return 0;
}

/* Begins a change at a multiple of 8 bytes; returns where. */
static inline uint32_t rosemary_changes_open(struct rosemary_changes *set) {
    rosemary_add_zeros(&set->to, (8 - set->to.size % 8) % 8);
    return set->to.size;
}

/* Ends a change. */
static inline int32_t rosemary_changes_close(struct rosemary_changes *set) {
    set->count++;
    if (set->result == 0 && (set->to.full || set->count > ROSEMARY_MAX_CHANGES)) {
        rosemary_logf(set->host, ROSEMARY_LOG_ERROR, "change %u does not fit: the set has room for %u bytes and %u changes",
                      set->count - 1, set->to.room - 8, (unsigned)ROSEMARY_MAX_CHANGES);
        set->result = ROSEMARY_WRONG;
    }
    return set->result;
}

/* Adds a whole flow-mod, group-mod or meter-mod in the switch's version, with the numbers of the switch: `lowest_priority`,
 * `first_group` and `first_meter` of the host are added. 0, or ROSEMARY_WRONG, after it has logged why. */
static inline int32_t rosemary_changes_add(struct rosemary_changes *set, const void *message, uint32_t size) {
    if (set->result != 0)
        return set->result;
    rosemary_changes_open(set);
    rosemary_add(&set->to, message, size);
    return rosemary_changes_close(set);
}

static inline void rosemary_put_cookie(uint8_t *to, uint64_t value) {
    rosemary_put32(to, (uint32_t)(value >> 32));
    rosemary_put32(to + 4, (uint32_t)value);
}

/* Adds a flow-mod; `command` is 0 to add and 3 to delete, `cookie_mask` has the bits of the cookie that a flow must have to be
 * deleted. */
static inline int32_t rosemary_changes_flow_mod(struct rosemary_changes *set, const struct rosemary_flow *flow,
                                                uint64_t cookie_mask, uint8_t command) {
    const uint32_t priority = (uint32_t)set->host->lowest_priority + flow->priority;
    uint32_t start;
    uint8_t *at;

    if (set->result != 0)
        return set->result;
    if (priority > set->host->highest_priority && set->host->highest_priority != 0) {
        rosemary_logf(set->host, ROSEMARY_LOG_ERROR, "priority %u: the operator gave this app 0 to %u", flow->priority,
                      (unsigned)set->host->highest_priority - set->host->lowest_priority);
        return set->result = ROSEMARY_WRONG;
    }
    start = rosemary_changes_open(set);
    at = rosemary_add_zeros(&set->to, 8);
    if (at) {
        at[0] = set->version;
        at[1] = 14; /* OFPT_FLOW_MOD */
    }
    rosemary_add_flow_mod(&set->to, set->version, flow, priority, command);
    if (at && !set->to.full) {
        rosemary_put16(at + 2, set->to.size - start);
        if (set->version != ROSEMARY_V1_0)
            rosemary_put_cookie(at + 16, cookie_mask);
    }
    return rosemary_changes_close(set);
}

/* Adds a change that adds a flow to table 0. 0, or ROSEMARY_WRONG, after it has logged why. */
static inline int32_t rosemary_changes_add_flow(struct rosemary_changes *set, const struct rosemary_flow *flow) {
    return rosemary_changes_flow_mod(set, flow, 0, 0);
}

/* Adds a change that deletes the flows of this app in table 0 that the match covers. */
static inline int32_t rosemary_changes_delete_flows(struct rosemary_changes *set, const struct rosemary_match *match) {
    struct rosemary_flow flow;

    memset(&flow, 0, sizeof flow);
    flow.match = *match;
    return rosemary_changes_flow_mod(set, &flow, 0, 3);
}

/* Adds a change that deletes the flows of this app in table 0 with this cookie. OpenFlow 1.0 has no such deletion: ROSEMARY_WRONG,
 * after a line in the log. */
static inline int32_t rosemary_changes_delete_cookie(struct rosemary_changes *set, uint64_t cookie) {
    struct rosemary_flow flow;

    if (set->result != 0)
        return set->result;
    if (set->version == ROSEMARY_V1_0) {
        rosemary_logf(set->host, ROSEMARY_LOG_ERROR,
                      "OpenFlow 1.0 cannot delete flows by their cookie; delete them by their match");
        return set->result = ROSEMARY_WRONG;
    }
    memset(&flow, 0, sizeof flow);
    flow.cookie = cookie;
    return rosemary_changes_flow_mod(set, &flow, 0xffffffffffffu, 3);
}

/* Sends the set when the batch is done. The outcome has its number `set`. 0, or ROSEMARY_FULL, or ROSEMARY_WRONG if the set is empty
 * or a change could not be added, after it has logged why. */
static inline int32_t rosemary_commit(struct rosemary_changes *set, uint32_t number) {
    if (set->result == 0 && set->count == 0) {
        rosemary_logf(set->host, ROSEMARY_LOG_ERROR, "a change set without changes; add one");
        set->result = ROSEMARY_WRONG;
    }
    if (set->result != 0)
        return set->result;
    memcpy(set->to.bytes + 4, &number, 4); /* little endian, as the machine */
    set->result = set->host->commit_series(set->host, set->dpid, set->epoch, set->to.size, ROSEMARY_CHANGE_SET);
    return set->result = set->result == 0 ? 0 : ROSEMARY_FULL;
}

/* Reads an outcome. 1, or 0 if the record is another one or malformed. `record` may be NULL. */
static inline int rosemary_read_committed(const struct rosemary_record *record, struct rosemary_committed *to) {
    const uint8_t *body;

    if (!record || record->kind != ROSEMARY_COMMITTED || record->cookie > UINT32_MAX ||
        record->reason > ROSEMARY_SET_UNANSWERED)
        return 0;
    body = rosemary_body(record);
    memset(to, 0, sizeof *to);
    to->dpid = record->dpid;
    to->epoch = record->epoch;
    to->set = (uint32_t)record->cookie;
    to->outcome = record->reason;
    to->is_applied = record->reason == ROSEMARY_SET_ATOMIC || record->reason == ROSEMARY_SET_ORDERED;
    to->index = UINT32_MAX;
    if (record->reason == ROSEMARY_SET_ATOMIC)
        to->outside = record->in_port;
    if (record->reason == ROSEMARY_SET_FAILED || record->reason == ROSEMARY_SET_UNANSWERED)
        to->is_partial = record->table_id != 0;
    if (record->reason == ROSEMARY_SET_REFUSED) {
        to->index = record->in_port;
        to->refused = record->table_id;
        to->text = (const char *)body;
        to->text_size = record->body_size;
    }
    if (record->reason == ROSEMARY_SET_FAILED) {
        if (record->body_size < 12)
            return 0;
        to->index = record->in_port;
        to->error_type = (uint16_t)rosemary_get16(body + 8);
        to->error_code = (uint16_t)rosemary_get16(body + 10);
    }
    return 1;
}

/* Defines `rosemary_on_record_or_committed`, an `on_record` that calls `on_committed` with each outcome of a change set, and
 * `on_record` with all else. For ROSEMARY_EXPORT_WITH_TIMERS and other macros that take an `on_record`. */
#define ROSEMARY_RECORDS_AND_CHANGES(type, on_record, on_committed)                                              \
    static int32_t rosemary_on_record_or_committed(type *app, const struct rosemary_record *record,              \
                                                   struct rosemary_turn *turn) {                                 \
        struct rosemary_committed result;                                                                        \
        if (rosemary_read_committed(record, &result))                                                            \
            return on_committed(app, &result, turn);                                                             \
        return on_record(app, record, turn);                                                                     \
    }

/* As ROSEMARY_EXPORT. `on_committed` is called with the outcome of each change set, and returns what `on_record` may return. */
#define ROSEMARY_EXPORT_WITH_CHANGES(app_name, app_version, type, on_record, on_committed)                       \
    ROSEMARY_RECORDS_AND_CHANGES(type, on_record, on_committed)                                                  \
    ROSEMARY_EXPORT(app_name, app_version, type, rosemary_on_record_or_committed)

#ifdef __cplusplus
}
#endif
#endif

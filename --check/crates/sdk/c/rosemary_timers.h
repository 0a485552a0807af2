/*
 * Timers with names for apps in C: other events do not change them, and a timer may repeat.
 *
 *     struct my_app {
 *         const struct rosemary_host *host;
 *         struct rosemary_timers timers;
 *     };
 *
 *     static void on_timer(struct my_app *app, const char *name, struct rosemary_turn *turn) {
 *         if (strcmp(name, "poll") == 0)
 *             ...
 *     }
 *
 *     ROSEMARY_EXPORT_WITH_TIMERS("my-app", "0.1.0", struct my_app, on_record, on_timer)
 *
 * `on_record` sets them:
 *
 *     rosemary_timer_repeat(&app->timers, "poll", turn->now_ns, 5000000000u);
 *
 * Timers end with the app's process: a restarted app sets them again.
 */
#ifndef ROSEMARY_TIMERS_H
#define ROSEMARY_TIMERS_H

#include "rosemary_messages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most timers of an app. */
#define ROSEMARY_MOST_TIMERS 16

/* Shortest period of a repeated timer, in nanoseconds. */
#define ROSEMARY_SHORTEST_PERIOD_NS 1000000u

struct rosemary_timer {
    const char *name;  /* NULL: unused */
    uint64_t at_ns;    /* when it expires */
    uint64_t every_ns; /* its period, or 0 */
};

/* The timers of an app; zeroed at first. */
struct rosemary_timers {
    struct rosemary_timer all[ROSEMARY_MOST_TIMERS];
    uint64_t wake_at_ns; /* the app's own `wake_at_ns`, while only timers with names expire */
};

/* The timer with this name, or NULL. */
static inline struct rosemary_timer *rosemary_timer_find(struct rosemary_timers *timers, const char *name) {
    for (uint32_t i = 0; i < ROSEMARY_MOST_TIMERS; i++)
        if (timers->all[i].name && strcmp(timers->all[i].name, name) == 0)
            return &timers->all[i];
    return NULL;
}

/* Sets a timer that expires at `at_ns`, and with a period then after each period. Replaces a timer of this name, which must stay
 * valid. 0, or -1 if there are ROSEMARY_MOST_TIMERS others. */
static inline int32_t rosemary_timer_put(struct rosemary_timers *timers, const char *name, uint64_t at_ns,
                                         uint64_t every_ns) {
    struct rosemary_timer *timer = rosemary_timer_find(timers, name);

    for (uint32_t i = 0; !timer && i < ROSEMARY_MOST_TIMERS; i++)
        if (!timers->all[i].name)
            timer = &timers->all[i];
    if (!timer)
        return -1;
    timer->name = name;
    timer->at_ns = at_ns;
    timer->every_ns = every_ns;
    return 0;
}

/* Sets a timer that expires once, at this time. As rosemary_timer_put. */
static inline int32_t rosemary_timer_set(struct rosemary_timers *timers, const char *name, uint64_t at_ns) {
    return rosemary_timer_put(timers, name, at_ns, 0);
}

/* Sets a timer that expires after each period, for the first time a period after `now_ns`. As rosemary_timer_put, and -1 if the
 * period is shorter than ROSEMARY_SHORTEST_PERIOD_NS. */
static inline int32_t rosemary_timer_repeat(struct rosemary_timers *timers, const char *name, uint64_t now_ns,
                                            uint64_t every_ns) {
    if (every_ns < ROSEMARY_SHORTEST_PERIOD_NS)
        return -1;
    return rosemary_timer_put(timers, name, now_ns + every_ns, every_ns);
}

/* Cancels a timer. Returns whether it was set. */
static inline int rosemary_timer_cancel(struct rosemary_timers *timers, const char *name) {
    struct rosemary_timer *timer = rosemary_timer_find(timers, name);

    if (timer)
        timer->name = NULL;
    return timer != NULL;
}

/* When the first timer expires; UINT64_MAX without timers. */
static inline uint64_t rosemary_timers_next(const struct rosemary_timers *timers) {
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < ROSEMARY_MOST_TIMERS; i++)
        if (timers->all[i].name && timers->all[i].at_ns < next)
            next = timers->all[i].at_ns;
    return next;
}

/* The name of a timer that has expired, the earliest first, or NULL. A timer that repeats is set again; a period that was missed
 * is left out. */
static inline const char *rosemary_timers_expired(struct rosemary_timers *timers, uint64_t now_ns) {
    struct rosemary_timer *first = NULL;
    const char *name;

    for (uint32_t i = 0; i < ROSEMARY_MOST_TIMERS; i++) {
        struct rosemary_timer *timer = &timers->all[i];
        if (timer->name && timer->at_ns <= now_ns && (!first || timer->at_ns < first->at_ns))
            first = timer;
    }
    if (!first)
        return NULL;
    name = first->name;
    if (first->every_ns == 0)
        first->name = NULL;
    else if (first->at_ns + first->every_ns > now_ns)
        first->at_ns += first->every_ns;
    else
        first->at_ns = now_ns + first->every_ns;
    return name;
}

/* `rosemary_on_batch_or_timer`, for ROSEMARY_TABLE_OF_APP; see ROSEMARY_EXPORT_WITH_TIMERS. */
#define ROSEMARY_RECORDS_AND_TIMERS(type, on_record, on_timer)                                                   \
    ROSEMARY_RECORDS(type, on_record)                                                                            \
    static int32_t rosemary_on_batch_or_timer(void *app, const struct rosemary_batch *batch,                     \
                                              struct rosemary_answer *answer) {                                  \
        struct rosemary_timers *timers = &((type *)app)->timers;                                                 \
        uint64_t wake_at_ns = UINT64_MAX, next_ns;                                                               \
        struct rosemary_turn turn = {batch->now_ns, &wake_at_ns, 0};                                             \
        uint32_t expired = 0;                                                                                    \
        const char *name;                                                                                        \
        while (expired < ROSEMARY_MOST_TIMERS && (name = rosemary_timers_expired(timers, batch->now_ns))) {      \
            on_timer((type *)app, name, &turn);                                                                  \
            expired++;                                                                                           \
        }                                                                                                        \
        if (batch->count || !expired || timers->wake_at_ns <= batch->now_ns) {                                   \
            if (rosemary_on_batch(app, batch, answer) != 0)                                                      \
                return ROSEMARY_FAILED;                                                                          \
            timers->wake_at_ns = answer->wake_at_ns;                                                             \
        }                                                                                                        \
        if (wake_at_ns < timers->wake_at_ns)                                                                     \
            timers->wake_at_ns = wake_at_ns;                                                                     \
        next_ns = rosemary_timers_next(timers);                                                                  \
        answer->wake_at_ns = next_ns < timers->wake_at_ns ? next_ns : timers->wake_at_ns;                        \
        return 0;                                                                                                \
    }

/* As ROSEMARY_EXPORT, for a `type` with a member `struct rosemary_timers timers`. `on_timer` is called with the name of each
 * timer that has expired, before the records. A wake-up for such timers alone leaves the app's own `wake_at_ns` as it is, and
 * calls `on_record` not. */
#define ROSEMARY_EXPORT_WITH_TIMERS(app_name, app_version, type, on_record, on_timer)                            \
    ROSEMARY_INSTANCE(type)                                                                                      \
    ROSEMARY_RECORDS_AND_TIMERS(type, on_record, on_timer)                                                       \
    ROSEMARY_TABLE_OF_APP(app_name, app_version, rosemary_on_batch_or_timer)

#ifdef __cplusplus
}
#endif
#endif

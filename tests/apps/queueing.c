/* Wants a QoS with a queue for the port p1, and a mirror, in the database `edge`, and logs what it reads. */
#include "rosemary_messages.h"
#include "rosemary_ovsdb.h"

struct app {
    const struct rosemary_host *host;
    int64_t list, read, wanted;
    struct rosemary_want want;
};

#define SAY(...) rosemary_logf(app->host, ROSEMARY_LOG_INFO, __VA_ARGS__)
#define TEXT(span) (int)(span).size, (span).text

static void want_rows(struct app *app) {
    struct rosemary_want *want = &app->want;

    rosemary_want_begin(want, app->host, "edge");
    rosemary_want_row(want, "QoS", "shape");
    rosemary_want_under(want, "Port", "p1", "qos");
    rosemary_want_set(want, "type");
    rosemary_want_text(want, "linux-htb");
    rosemary_want_map(want, "queues");
    rosemary_want_integer(want, 3);
    rosemary_want_key(want, "slow");
    rosemary_want_row(want, "Queue", "slow");
    rosemary_want_map(want, "other_config");
    rosemary_want_text(want, "max-rate");
    rosemary_want_text(want, "300000");
    rosemary_want_row(want, "Mirror", "watch");
    rosemary_want_under(want, "Bridge", "s1", "mirrors");
    rosemary_want_set(want, "name");
    rosemary_want_text(want, "watch");
    rosemary_want_set(want, "select_dst_port");
    rosemary_want_port(want, "p1");
    app->wanted = rosemary_want_end(want);
}

static void on_answer(struct app *app, const struct rosemary_record *record) {
    struct rosemary_database database;
    struct rosemary_refused_row refused;
    struct rosemary_span span;
    struct rosemary_atom atom;
    struct rosemary_row row;
    uint32_t at = 0;

    if (rosemary_answers(record, ROSEMARY_SERVICE_OVSDB, app->list) && rosemary_ovsdb_owner(record, &span) == 0) {
        SAY("owner %.*s", TEXT(span));
        while (rosemary_next_database(record, &at, &database))
            SAY("database %.*s", TEXT(database.name));
        want_rows(app);
    } else if (rosemary_answers(record, ROSEMARY_SERVICE_OVSDB, app->wanted)) {
        while (rosemary_next_refused_row(record, &at, &refused))
            SAY("refused %.*s: %.*s", TEXT(refused.key), TEXT(refused.why));
        SAY("wanted: done %d", rosemary_is_wanted_done(record));
        if (rosemary_is_wanted_done(record))
            app->read = rosemary_database_rows(app->host, "edge", "Queue", NULL);
        else
            want_rows(app); /* the database was not connected yet */
    } else if (rosemary_answers(record, ROSEMARY_SERVICE_OVSDB, app->read)) {
        while (rosemary_next_row(record, &at, &row))
            if (rosemary_row_entry(record, &row, "external_ids", "rosemary-owner", &atom)) {
                SAY("a queue of %.*s", TEXT(atom.text));
                if (rosemary_row_entry(record, &row, "other_config", "max-rate", &atom))
                    SAY("its rate is %.*s", TEXT(atom.text));
            }
    }
}

static int32_t on_record(struct app *app, const struct rosemary_record *record, struct rosemary_turn *turn) {
    (void)turn;
    if (!record || record->kind != ROSEMARY_SERVICE || record->reason != ROSEMARY_SERVICE_OVSDB)
        return 0;
    if (record->table_id == ROSEMARY_SERVICE_UP)
        app->list = rosemary_databases(app->host);
    else
        on_answer(app, record);
    return 0;
}

ROSEMARY_EXPORT("queueing", "0.1.0", struct app, on_record)

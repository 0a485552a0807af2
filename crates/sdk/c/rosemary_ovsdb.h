/*
 * The client of the service `ovsdb` for apps in C: reads the databases of switches, and states the rows that the app wants there.
 *
 *     static struct rosemary_want want;
 *
 *     rosemary_want_begin(&want, host, "edge");
 *     rosemary_want_row(&want, "Queue", "slow");
 *     rosemary_want_map(&want, "other_config");
 *     rosemary_want_text(&want, "max-rate");
 *     rosemary_want_text(&want, "200000");
 *     rosemary_want_row(&want, "QoS", "shape");
 *     rosemary_want_under(&want, "Port", "eth1", "qos");
 *     rosemary_want_set(&want, "type");
 *     rosemary_want_text(&want, "linux-htb");
 *     rosemary_want_map(&want, "queues");
 *     rosemary_want_integer(&want, 0);
 *     rosemary_want_key(&want, "slow");
 *     request = rosemary_want_end(&want);
 *
 * The operator names each database with [[ovsdb]], names `ovsdb` in `services`, and grants ovsdb.read, and
 * ovsdb.write:DATABASE:BRIDGE:TABLE for the wanted rows. A request returns its number, which is above 0, or ROSEMARY_ASK_*. The
 * answer is a ROSEMARY_SERVICE record with this number in `cookie`; rosemary_answers (rosemary_services.h) recognises it. Texts
 * of answers lie in the record, end with no NUL, and come from switches: escape them before you print them.
 */
#ifndef ROSEMARY_OVSDB_H
#define ROSEMARY_OVSDB_H

#include "rosemary_services.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ROSEMARY_SERVICE_OVSDB = 9 };

/* Most bytes of a request, and most rows that an app may want of one database. */
enum { ROSEMARY_MOST_REQUEST = 40960, ROSEMARY_MOST_ROWS = 1000 };

/* The first byte of an answer. */
enum {
    ROSEMARY_OVSDB_DATABASES = 0, /* rosemary_ovsdb_owner, rosemary_next_database */
    ROSEMARY_OVSDB_ROWS = 1,      /* rosemary_next_row, rosemary_rows_follow */
    ROSEMARY_OVSDB_PART = 2,      /* a part of the wanted rows was received; another request has the answer */
    ROSEMARY_OVSDB_WANTED = 3,    /* rosemary_is_wanted_done, rosemary_next_refused_row */
    ROSEMARY_OVSDB_CHANGED = 4,   /* rosemary_is_database_connected, rosemary_next_table; further answers follow */
    ROSEMARY_OVSDB_REFUSED = 5    /* rosemary_ovsdb_refusal */
};

/* Why a request was refused as a whole. */
enum {
    ROSEMARY_OVSDB_MALFORMED = 0,
    ROSEMARY_OVSDB_UNKNOWN_DATABASE = 1,
    ROSEMARY_OVSDB_NOT_CONNECTED = 2,
    ROSEMARY_OVSDB_UNKNOWN_TABLE = 3,
    ROSEMARY_OVSDB_TOO_MANY = 4, /* more than ROSEMARY_MOST_ROWS rows, or 1 MiB */
    ROSEMARY_OVSDB_BUSY = 5      /* too many requests of the app wait */
};

/* Kinds of elements. */
enum {
    ROSEMARY_ATOM_INTEGER = 0,
    ROSEMARY_ATOM_REAL = 1,
    ROSEMARY_ATOM_BOOLEAN = 2,
    ROSEMARY_ATOM_TEXT = 3,
    ROSEMARY_ATOM_ROW = 4,    /* the identifier of an existing row */
    ROSEMARY_ATOM_WANTED = 5, /* the key of a row that the same app wants */
    ROSEMARY_ATOM_PORT = 6    /* the port of this name */
};

/* A text in a record. */
struct rosemary_span {
    const char *text;
    uint32_t size;
};

/* A database. */
struct rosemary_database {
    struct rosemary_span name;
    struct rosemary_span address; /* in the configuration, such as ssl:192.0.2.7:6640 */
    int is_connected;
    struct rosemary_span why; /* why it is not connected */
};

/* A row that an answer holds. */
struct rosemary_row {
    uint8_t id[16];
    int is_cut;       /* whether columns are missing because the row is longer than a message */
    uint32_t columns; /* the place of its columns in the record */
    uint16_t count;   /* the number of its columns */
};

/* A column of a row: a set, or a map, whose elements are keys and values alternately. */
struct rosemary_column {
    struct rosemary_span name;
    int is_map;
    uint32_t count; /* elements of a set, pairs of a map */
    uint32_t at;    /* the place of the next element in the record */
    uint32_t left;  /* elements that rosemary_next_atom has not read yet; two for each pair */
};

/* An element of a column. */
struct rosemary_atom {
    uint8_t kind; /* ROSEMARY_ATOM_* */
    int64_t integer;
    double real;
    int boolean;
    struct rosemary_span text; /* of a text, key or name */
    uint8_t row[16];
};

/* A wanted row that the database lacks. */
struct rosemary_refused_row {
    struct rosemary_span key;
    struct rosemary_span why; /* the reason, with a remedy */
};

/* Requests the list of databases: ROSEMARY_OVSDB_DATABASES. */
static inline int64_t rosemary_databases(const struct rosemary_host *host) {
    static const uint8_t request[1] = {1};

    return host->ask(host, ROSEMARY_SERVICE_OVSDB, request, sizeof request);
}

/* Requests the rows of a table behind the row `after`, NULL for the first ones: ROSEMARY_OVSDB_ROWS. */
static inline int64_t rosemary_database_rows(const struct rosemary_host *host, const char *database, const char *table,
                                             const uint8_t after[16]) {
    struct rosemary_ask ask;

    ask.size = 0;
    rosemary_ask_number(&ask, 2, 1);
    if (rosemary_ask_text(&ask, database, 256) != 0 || rosemary_ask_text(&ask, table, 256) != 0)
        return ROSEMARY_ASK_TOO_LONG;
    for (uint32_t i = 0; i < 16; i++)
        rosemary_ask_number(&ask, after ? after[i] : 0, 1);
    return host->ask(host, ROSEMARY_SERVICE_OVSDB, ask.bytes, ask.size);
}

/* Requests a notice of each change of a database, at most one each second: ROSEMARY_OVSDB_CHANGED. */
static inline int64_t rosemary_watch_database(const struct rosemary_host *host, const char *database) {
    struct rosemary_ask ask;

    ask.size = 0;
    rosemary_ask_number(&ask, 4, 1);
    if (rosemary_ask_text(&ask, database, 256) != 0)
        return ROSEMARY_ASK_TOO_LONG;
    return host->ask(host, ROSEMARY_SERVICE_OVSDB, ask.bytes, ask.size);
}

/* All rows that an app wants of a database, while they are being stated. It is large: keep it in static memory or on the heap. */
struct rosemary_want {
    const struct rosemary_host *host;
    int64_t failed;   /* 0, or why a part was not sent */
    uint32_t size;
    uint32_t rows_at; /* the place of the number of rows, behind which they begin */
    uint32_t row_at;  /* the place of the row that is being stated; 0 if there is none */
    uint32_t columns_at;
    uint32_t value_at; /* the place of the kind of the column that is being stated; 0 if there is none */
    uint32_t elements; /* of this column */
    uint16_t rows;     /* whole rows of this part */
    uint16_t columns;
    int is_first;
    uint8_t bytes[ROSEMARY_MOST_REQUEST];
};

static inline void rosemary_want_patch(struct rosemary_want *to, uint32_t at, uint32_t number, uint32_t size) {
    for (uint32_t i = 0; i < size; i++)
        to->bytes[at + i] = (uint8_t)(number >> (8 * i));
}

/* Ends the column that is being stated. */
static inline void rosemary_want_end_column(struct rosemary_want *to) {
    if (to->value_at != 0)
        rosemary_want_patch(to, to->value_at + 1, to->bytes[to->value_at] ? to->elements / 2 : to->elements, 4);
    to->value_at = 0;
}

/* Ends the row that is being stated. */
static inline void rosemary_want_end_row(struct rosemary_want *to) {
    rosemary_want_end_column(to);
    if (to->row_at != 0) {
        rosemary_want_patch(to, to->columns_at, to->columns, 2);
        to->rows++;
    }
    to->row_at = 0;
}

/* Sends the rows before `end` as a part. */
static inline int64_t rosemary_want_send(struct rosemary_want *to, uint32_t end, int is_last) {
    to->bytes[to->rows_at - 1] = (uint8_t)((to->is_first ? 1 : 0) | (is_last ? 2 : 0));
    rosemary_want_patch(to, to->rows_at, to->rows, 2);
    to->is_first = 0;
    return to->host->ask(to->host, ROSEMARY_SERVICE_OVSDB, to->bytes, end);
}

/* Makes room in the message: it sends the whole rows, and keeps the unfinished row. */
static inline int rosemary_want_room(struct rosemary_want *to, uint32_t size) {
    const uint32_t begin = to->rows_at + 2;

    if (to->failed == 0 && to->rows > 0 && to->size + size > sizeof to->bytes) {
        const uint32_t end = to->row_at != 0 ? to->row_at : to->size;
        const int64_t sent = rosemary_want_send(to, end, 0);

        if (sent < 0)
            to->failed = sent;
        memmove(to->bytes + begin, to->bytes + end, to->size - end);
        to->size -= end - begin;
        to->row_at -= to->row_at != 0 ? end - begin : 0;
        to->columns_at -= to->row_at != 0 ? end - begin : 0;
        to->value_at -= to->value_at != 0 ? end - begin : 0;
        to->rows = 0;
    }
    if (to->failed == 0 && to->size + size > sizeof to->bytes)
        to->failed = ROSEMARY_ASK_TOO_LONG; /* a row that fits no message */
    return to->failed == 0;
}

static inline void rosemary_want_number(struct rosemary_want *to, uint64_t number, uint32_t size) {
    if (!rosemary_want_room(to, size))
        return;
    for (uint32_t i = 0; i < size; i++)
        to->bytes[to->size++] = (uint8_t)(number >> (8 * i));
}

/* Adds a text behind its length of `head` bytes. */
static inline void rosemary_want_span(struct rosemary_want *to, const char *text, uint32_t head) {
    const size_t size = strlen(text);

    if (size >= sizeof to->bytes) {
        to->failed = ROSEMARY_ASK_TOO_LONG;
        return;
    }
    rosemary_want_number(to, size, head);
    if (!rosemary_want_room(to, (uint32_t)size))
        return;
    memcpy(to->bytes + to->size, text, size);
    to->size += (uint32_t)size;
}

/* Begins to state all rows that the app wants of a database. They replace the rows that it wanted before. */
static inline void rosemary_want_begin(struct rosemary_want *to, const struct rosemary_host *host, const char *database) {
    to->host = host;
    to->failed = 0;
    to->size = to->row_at = to->columns_at = to->value_at = to->elements = 0;
    to->rows = to->columns = 0;
    to->is_first = 1;
    rosemary_want_number(to, 3, 1);
    rosemary_want_span(to, database, 2);
    rosemary_want_number(to, 0, 1); /* the place of the part */
    to->rows_at = to->size;
    rosemary_want_number(to, 0, 2);
}

/* Begins a row. `key` is its name among all rows that the app wants of this database: a letter or an underscore, then also digits. */
static inline void rosemary_want_row(struct rosemary_want *to, const char *table, const char *key) {
    rosemary_want_end_row(to);
    if (to->failed != 0)
        return;
    to->row_at = to->size;
    to->columns = 0;
    rosemary_want_span(to, table, 2);
    rosemary_want_span(to, key, 2);
    rosemary_want_number(to, 0, 1); /* no parent */
    to->columns_at = to->size;
    rosemary_want_number(to, 0, 2);
}

/* Names the existing row that must refer to the row just begun: its table, the value of its column `name`, and the column. */
static inline void rosemary_want_under(struct rosemary_want *to, const char *table, const char *name, const char *column) {
    if (to->failed != 0 || to->row_at == 0 || to->columns != 0)
        return;
    to->size = to->columns_at - 1;
    rosemary_want_number(to, 1, 1);
    rosemary_want_span(to, table, 2);
    rosemary_want_span(to, name, 2);
    rosemary_want_span(to, column, 2);
    if (!rosemary_want_room(to, 2))
        return;
    to->columns_at = to->size;
    rosemary_want_number(to, 0, 2);
}

static inline void rosemary_want_column(struct rosemary_want *to, const char *column, uint8_t kind) {
    rosemary_want_end_column(to);
    if (to->failed != 0 || to->row_at == 0)
        return;
    to->columns++;
    to->elements = 0;
    rosemary_want_span(to, column, 2);
    if (!rosemary_want_room(to, 5))
        return;
    to->value_at = to->size;
    rosemary_want_number(to, kind, 1);
    rosemary_want_number(to, 0, 4);
}

/* Begins a column whose value is a set, or one element: the elements follow. Other columns keep the server's values. */
static inline void rosemary_want_set(struct rosemary_want *to, const char *column) {
    rosemary_want_column(to, column, 0);
}

/* Begins a column whose value is a map: keys and values follow alternately. */
static inline void rosemary_want_map(struct rosemary_want *to, const char *column) {
    rosemary_want_column(to, column, 1);
}

/* Adds an element of this kind to the column. */
static inline void rosemary_want_element(struct rosemary_want *to, uint8_t kind) {
    to->elements++;
    rosemary_want_number(to, kind, 1);
}

static inline void rosemary_want_integer(struct rosemary_want *to, int64_t number) {
    rosemary_want_element(to, ROSEMARY_ATOM_INTEGER);
    rosemary_want_number(to, (uint64_t)number, 8);
}

static inline void rosemary_want_real(struct rosemary_want *to, double number) {
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    rosemary_want_element(to, ROSEMARY_ATOM_REAL);
    rosemary_want_number(to, bits, 8);
}

static inline void rosemary_want_boolean(struct rosemary_want *to, int is) {
    rosemary_want_element(to, ROSEMARY_ATOM_BOOLEAN);
    rosemary_want_number(to, is != 0, 1);
}

static inline void rosemary_want_text(struct rosemary_want *to, const char *text) {
    rosemary_want_element(to, ROSEMARY_ATOM_TEXT);
    rosemary_want_span(to, text, 4);
}

/* Adds a reference to an existing row. */
static inline void rosemary_want_existing(struct rosemary_want *to, const uint8_t row[16]) {
    rosemary_want_element(to, ROSEMARY_ATOM_ROW);
    for (uint32_t i = 0; i < 16; i++)
        rosemary_want_number(to, row[i], 1);
}

/* Adds a reference to the row that the app wants with this key. */
static inline void rosemary_want_key(struct rosemary_want *to, const char *key) {
    rosemary_want_element(to, ROSEMARY_ATOM_WANTED);
    rosemary_want_span(to, key, 2);
}

/* Adds a reference to the port with this name, whichever row it is at the time. */
static inline void rosemary_want_port(struct rosemary_want *to, const char *name) {
    rosemary_want_element(to, ROSEMARY_ATOM_PORT);
    rosemary_want_span(to, name, 2);
}

/* Sends the rows: ROSEMARY_OVSDB_WANTED. If this returns ROSEMARY_ASK_*, the rows before are still wanted. */
static inline int64_t rosemary_want_end(struct rosemary_want *to) {
    rosemary_want_end_row(to);
    return to->failed != 0 ? to->failed : rosemary_want_send(to, to->size, 1);
}

/* The first byte of an answer: ROSEMARY_OVSDB_*; -1 if it is empty. */
static inline int rosemary_ovsdb_answer(const struct rosemary_record *record) {
    return record->body_size > 0 ? rosemary_body(record)[0] : -1;
}

/* Reads a text behind its length of `head` bytes at `*at`. 0, or -1 if the answer ends before. */
static inline int rosemary_answer_span(const struct rosemary_record *record, uint32_t *at, uint32_t head,
                                       struct rosemary_span *to) {
    uint64_t size;

    if (rosemary_answer_number(record, at, head, &size) != 0 || size > record->body_size - *at)
        return -1;
    to->text = (const char *)rosemary_body(record) + *at;
    to->size = (uint32_t)size;
    *at += (uint32_t)size;
    return 0;
}

/* Reads the head of an answer of this kind, if `*at` is 0: `skipped` bytes, and the number of elements. */
static inline int rosemary_ovsdb_begin(const struct rosemary_record *record, int kind, uint32_t skipped, uint32_t *at) {
    if (rosemary_ovsdb_answer(record) != kind || record->body_size < 3 + skipped)
        return -1;
    if (*at == 0)
        *at = 3 + skipped;
    return 0;
}

/* The value of `rosemary-owner` in `external_ids` of the app's own rows, from a list of databases. 0, or -1 if it is none. */
static inline int rosemary_ovsdb_owner(const struct rosemary_record *record, struct rosemary_span *owner) {
    uint32_t at = 1;

    return rosemary_ovsdb_answer(record) == ROSEMARY_OVSDB_DATABASES ? rosemary_answer_span(record, &at, 2, owner) : -1;
}

/* Reads the next database of a list. `*at` is 0 at first. 1, or 0 if there is none. */
static inline int rosemary_next_database(const struct rosemary_record *record, uint32_t *at, struct rosemary_database *to) {
    struct rosemary_span owner;
    uint64_t is_connected;

    if (rosemary_ovsdb_owner(record, &owner) != 0)
        return 0;
    if (*at == 0)
        *at = 5 + owner.size; /* the kind, the owner, and the number of databases */
    if (*at > record->body_size || rosemary_answer_span(record, at, 2, &to->name) != 0 ||
        rosemary_answer_span(record, at, 2, &to->address) != 0 ||
        rosemary_answer_number(record, at, 1, &is_connected) != 0 || rosemary_answer_span(record, at, 2, &to->why) != 0)
        return 0;
    to->is_connected = is_connected != 0;
    return 1;
}

/* Reads the next element of a column. 1, or 0 if there is none. */
static inline int rosemary_next_atom(const struct rosemary_record *record, struct rosemary_column *column,
                                     struct rosemary_atom *to) {
    static const uint8_t sizes[3] = {8, 8, 1};
    uint64_t kind, number = 0;

    memset(to, 0, sizeof *to);
    if (column->left == 0 || rosemary_answer_number(record, &column->at, 1, &kind) != 0)
        return 0;
    column->left--;
    to->kind = (uint8_t)kind;
    switch (kind) {
    case ROSEMARY_ATOM_INTEGER:
    case ROSEMARY_ATOM_REAL:
    case ROSEMARY_ATOM_BOOLEAN:
        if (rosemary_answer_number(record, &column->at, sizes[kind], &number) != 0)
            return 0;
        memcpy(&to->integer, &number, sizeof number);
        memcpy(&to->real, &number, sizeof number);
        to->boolean = number != 0;
        return 1;
    case ROSEMARY_ATOM_TEXT:
        return rosemary_answer_span(record, &column->at, 4, &to->text) == 0;
    case ROSEMARY_ATOM_ROW:
        if (record->body_size - column->at < 16)
            return 0;
        memcpy(to->row, rosemary_body(record) + column->at, 16);
        column->at += 16;
        return 1;
    case ROSEMARY_ATOM_WANTED:
    case ROSEMARY_ATOM_PORT:
        return rosemary_answer_span(record, &column->at, 2, &to->text) == 0;
    default:
        return 0;
    }
}

/* Reads the column at `*at`, and moves `*at` to its first element. 0, or -1 if the answer is malformed. */
static inline int rosemary_answer_column(const struct rosemary_record *record, uint32_t *at, struct rosemary_column *to) {
    uint64_t kind, count;

    if (rosemary_answer_span(record, at, 2, &to->name) != 0 || rosemary_answer_number(record, at, 1, &kind) != 0 ||
        rosemary_answer_number(record, at, 4, &count) != 0 || kind > 1 || count > record->body_size)
        return -1;
    to->is_map = kind == 1;
    to->count = (uint32_t)count;
    to->at = *at;
    to->left = to->count << kind;
    return 0;
}

/* Moves `*at` behind a column. 0, or -1 if the answer is malformed. */
static inline int rosemary_skip_column(const struct rosemary_record *record, uint32_t *at, struct rosemary_column *to) {
    struct rosemary_column all;
    struct rosemary_atom atom;

    if (rosemary_answer_column(record, at, to) != 0)
        return -1;
    all = *to;
    while (all.left > 0)
        if (!rosemary_next_atom(record, &all, &atom))
            return -1;
    *at = all.at;
    return 0;
}

/* Reads the next row of an answer. `*at` is 0 at first. 1, or 0 if there is none. */
static inline int rosemary_next_row(const struct rosemary_record *record, uint32_t *at, struct rosemary_row *to) {
    struct rosemary_column column;
    uint64_t is_cut, count;

    if (rosemary_ovsdb_begin(record, ROSEMARY_OVSDB_ROWS, 1, at) != 0 || record->body_size - *at < 19)
        return 0;
    memcpy(to->id, rosemary_body(record) + *at, 16);
    *at += 16;
    if (rosemary_answer_number(record, at, 1, &is_cut) != 0 || rosemary_answer_number(record, at, 2, &count) != 0)
        return 0;
    to->is_cut = is_cut != 0;
    to->columns = *at;
    to->count = (uint16_t)count;
    for (uint64_t i = 0; i < count; i++)
        if (rosemary_skip_column(record, at, &column) != 0)
            return 0;
    return 1;
}

/* Whether the table has rows behind the last one of this answer, for a request with this one as `after`. */
static inline int rosemary_rows_follow(const struct rosemary_record *record) {
    return rosemary_ovsdb_answer(record) == ROSEMARY_OVSDB_ROWS && record->body_size > 1 && rosemary_body(record)[1] != 0;
}

/* Finds a column of a row. 1, or 0 if the row has none of this name. */
static inline int rosemary_row_column(const struct rosemary_record *record, const struct rosemary_row *row, const char *name,
                                      struct rosemary_column *to) {
    uint32_t at = row->columns;

    for (uint32_t i = 0; i < row->count; i++) {
        if (rosemary_skip_column(record, &at, to) != 0)
            return 0;
        if (to->name.size == strlen(name) && memcmp(to->name.text, name, to->name.size) == 0)
            return 1;
    }
    return 0;
}

/* Reads the only element of a column, such as the name of a port. 1, or 0 if the column has none or several. */
static inline int rosemary_row_atom(const struct rosemary_record *record, const struct rosemary_row *row, const char *name,
                                    struct rosemary_atom *to) {
    struct rosemary_column column;

    return rosemary_row_column(record, row, name, &column) && !column.is_map && column.count == 1 &&
           rosemary_next_atom(record, &column, to);
}

/* Reads the value of a text in a map, such as `rx_errors` in `statistics`. 1, or 0 if there is none. */
static inline int rosemary_row_entry(const struct rosemary_record *record, const struct rosemary_row *row, const char *name,
                                     const char *key, struct rosemary_atom *to) {
    struct rosemary_column column;
    struct rosemary_atom found;

    if (!rosemary_row_column(record, row, name, &column) || !column.is_map)
        return 0;
    while (rosemary_next_atom(record, &column, &found) && rosemary_next_atom(record, &column, to))
        if (found.kind == ROSEMARY_ATOM_TEXT && found.text.size == strlen(key) &&
            memcmp(found.text.text, key, found.text.size) == 0)
            return 1;
    return 0;
}

/* Whether the database has all wanted rows that are not refused. If not, it is not connected, and gets them later. */
static inline int rosemary_is_wanted_done(const struct rosemary_record *record) {
    return rosemary_ovsdb_answer(record) == ROSEMARY_OVSDB_WANTED && record->body_size > 1 && rosemary_body(record)[1] != 0;
}

/* Reads the next refused row of an answer to rosemary_want_end. `*at` is 0 at first. 1, or 0 if there is none. */
static inline int rosemary_next_refused_row(const struct rosemary_record *record, uint32_t *at,
                                            struct rosemary_refused_row *to) {
    return rosemary_ovsdb_begin(record, ROSEMARY_OVSDB_WANTED, 1, at) == 0 &&
           rosemary_answer_span(record, at, 2, &to->key) == 0 && rosemary_answer_span(record, at, 2, &to->why) == 0;
}

/* Whether the database is connected, from a notice of a change. */
static inline int rosemary_is_database_connected(const struct rosemary_record *record) {
    return rosemary_ovsdb_answer(record) == ROSEMARY_OVSDB_CHANGED && record->body_size > 1 && rosemary_body(record)[1] != 0;
}

/* Reads the name of the next table that has changed. `*at` is 0 at first. 1, or 0 if there is none. */
static inline int rosemary_next_table(const struct rosemary_record *record, uint32_t *at, struct rosemary_span *to) {
    return rosemary_ovsdb_begin(record, ROSEMARY_OVSDB_CHANGED, 1, at) == 0 && rosemary_answer_span(record, at, 2, to) == 0;
}

/* Why a request was refused as a whole: ROSEMARY_OVSDB_MALFORMED, ..., and the reason as a phrase; -1 if it was not. */
static inline int rosemary_ovsdb_refusal(const struct rosemary_record *record, struct rosemary_span *why) {
    uint32_t at = 2;

    if (rosemary_ovsdb_answer(record) != ROSEMARY_OVSDB_REFUSED || record->body_size < 2 ||
        rosemary_answer_span(record, &at, 2, why) != 0)
        return -1;
    return rosemary_body(record)[1];
}

#ifdef __cplusplus
}
#endif
#endif

/*
 * Answers HTTP requests in C, for an application with the capability http.serve.
 *
 *     case ROSEMARY_HTTP: {
 *         struct rosemary_http_request request;
 *         if (rosemary_http_request_of_record(record, &request) != 0)
 *             break;
 *         if (rosemary_http_is(&request, "GET", "/packets"))
 *             rosemary_http_respond(host, record, 200, "text/plain", text, size);
 *         else
 *             rosemary_http_respond(host, record, 404, "text/plain", "no such path\n", 13);
 *         break;
 *     }
 *
 * Rosemary serves the application at /apps/NAME/... An answer can also be given in a later batch, with a copy of the
 * record's head; the client waits ten seconds in all.
 */
#ifndef ROSEMARY_HTTP_H
#define ROSEMARY_HTTP_H

#include <stdint.h>
#include <string.h>

#include "rosemary_app.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most bytes of a part of an answer, and of the whole body. */
#define ROSEMARY_HTTP_PART 40960u
#define ROSEMARY_HTTP_MOST_BODY 524288u

/* The most characters of a media type. */
#define ROSEMARY_HTTP_MOST_TYPE 256u

/* Bytes of a record, without a NUL. */
struct rosemary_http_text {
    const char *start;
    uint32_t size;
};

/* A request; valid as long as its record. */
struct rosemary_http_request {
    struct rosemary_http_text method;
    struct rosemary_http_text path;    /* behind the app's name, from its slash on, as the client sent it */
    struct rosemary_http_text query;   /* behind the question mark */
    struct rosemary_http_text headers; /* see rosemary_http_header */
    const uint8_t *body;
    uint32_t body_size;
};

/* Takes a number of two bytes. 0, or -1 if there is none. */
static inline int rosemary_http_take_u16(struct rosemary_http_text *from, uint32_t *out) {
    if (from->size < 2)
        return -1;
    *out = (uint32_t)(uint8_t)from->start[0] | (uint32_t)(uint8_t)from->start[1] << 8;
    from->start += 2;
    from->size -= 2;
    return 0;
}

/* Takes a text behind its size. 0, or -1 if there is none. */
static inline int rosemary_http_take(struct rosemary_http_text *from, struct rosemary_http_text *out) {
    uint32_t size;

    if (rosemary_http_take_u16(from, &size) != 0 || from->size < size)
        return -1;
    out->start = from->start;
    out->size = size;
    from->start += size;
    from->size -= size;
    return 0;
}

/* Reads the request of a ROSEMARY_HTTP record. 0, or -1 if it is none. */
static inline int rosemary_http_request_of_record(const struct rosemary_record *record,
                                                  struct rosemary_http_request *out) {
    struct rosemary_http_text rest, target, ignored;
    const char *mark;
    uint32_t count;

    if (record->kind != ROSEMARY_HTTP)
        return -1;
    rest.start = (const char *)rosemary_body(record);
    rest.size = record->body_size;
    if (rosemary_http_take(&rest, &out->method) != 0 || rosemary_http_take(&rest, &target) != 0
        || rosemary_http_take_u16(&rest, &count) != 0)
        return -1;
    out->path = target;
    out->query.start = target.start + target.size;
    out->query.size = 0;
    mark = target.size ? (const char *)memchr(target.start, '?', target.size) : NULL;
    if (mark) {
        out->path.size = (uint32_t)(mark - target.start);
        out->query.start = mark + 1;
        out->query.size = target.size - out->path.size - 1;
    }
    out->headers.start = rest.start;
    for (uint32_t i = 0; i < 2 * count; i++)
        if (rosemary_http_take(&rest, &ignored) != 0)
            return -1;
    out->headers.size = (uint32_t)(rest.start - out->headers.start);
    out->body = (const uint8_t *)rest.start;
    out->body_size = rest.size;
    return 0;
}

/* Whether a text of a request is this one. */
static inline int rosemary_http_equals(struct rosemary_http_text text, const char *other) {
    return text.size == strlen(other) && memcmp(text.start, other, text.size) == 0;
}

/* Whether a request has this method and this path. */
static inline int rosemary_http_is(const struct rosemary_http_request *request, const char *method, const char *path) {
    return rosemary_http_equals(request->method, method) && rosemary_http_equals(request->path, path);
}

/* Finds the value of a header by its name in lower case. 0, or -1 if there is none. */
static inline int rosemary_http_header(const struct rosemary_http_request *request, const char *name,
                                       struct rosemary_http_text *value) {
    struct rosemary_http_text rest = request->headers, it;

    while (rosemary_http_take(&rest, &it) == 0 && rosemary_http_take(&rest, value) == 0)
        if (rosemary_http_equals(it, name))
            return 0;
    return -1;
}

static inline uint32_t rosemary_http_put(uint8_t *out, uint32_t at, const char *text, uint32_t size) {
    out[at] = (uint8_t)size;
    out[at + 1] = (uint8_t)(size >> 8);
    memcpy(out + at + 2, text, size);
    return at + 2 + size;
}

/* Whether a header can have this value: visible ASCII characters, and spaces and tabs between them. */
static inline int rosemary_http_is_value(const char *text) {
    const size_t size = strlen(text);

    for (size_t i = 0; i < size; i++) {
        const int is_space = text[i] == ' ' || text[i] == '\t';
        if (is_space ? i == 0 || i + 1 == size : text[i] <= ' ' || text[i] > '~')
            return 0;
    }
    return 1;
}

/* Answers the request of a record: a status from 200 to 599, a media type of at most ROSEMARY_HTTP_MOST_TYPE visible ASCII
 * characters with spaces and tabs between them, and a body of at most ROSEMARY_HTTP_MOST_BODY bytes. 0, or -1 if one of them is
 * not valid; then nothing is sent, and another answer can be given. */
static inline int32_t rosemary_http_respond(const struct rosemary_host *host, const struct rosemary_record *record,
                                            uint32_t status, const char *media_type, const void *body,
                                            uint32_t size) {
    uint8_t part[ROSEMARY_HTTP_PART];
    const size_t type_size = strlen(media_type);
    const uint8_t *next = (const uint8_t *)body;
    uint32_t at = 4, taken;

    if (status < 200 || status > 599 || size > ROSEMARY_HTTP_MOST_BODY || type_size > ROSEMARY_HTTP_MOST_TYPE
        || !rosemary_http_is_value(media_type))
        return -1;
    part[0] = (uint8_t)status;
    part[1] = (uint8_t)(status >> 8);
    part[2] = 1; /* header */
    part[3] = 0;
    at = rosemary_http_put(part, at, "content-type", 12);
    at = rosemary_http_put(part, at, media_type, (uint32_t)type_size);
    taken = size < ROSEMARY_HTTP_PART - at ? size : ROSEMARY_HTTP_PART - at;
    if (taken)
        memcpy(part + at, next, taken);
    size -= taken;
    if (host->answer(host, record->dpid, record->cookie, size > 0, part, at + taken) != 0)
        return -1;
    while (size > 0) {
        next += taken;
        taken = size < ROSEMARY_HTTP_PART ? size : ROSEMARY_HTTP_PART;
        size -= taken;
        if (host->answer(host, record->dpid, record->cookie, size > 0, next, taken) != 0)
            return -1;
    }
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif

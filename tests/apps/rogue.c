/* Answers HTTP requests as no app should; the path says how. */
#include <stdlib.h>

#include "rosemary_http.h"

static const struct rosemary_host *host;

static void answer(const struct rosemary_record *record, uint64_t more, const void *part, uint32_t size) {
    host->answer(host, record->dpid, record->cookie, (uint32_t)more, part, size);
}

/* A first part with a status and one header. */
static void with_header(const struct rosemary_record *record, uint32_t status, const char *name, const char *value,
                        uint32_t more) {
    uint8_t part[1024] = {(uint8_t)status, (uint8_t)(status >> 8), 1, 0};
    uint32_t at = rosemary_http_put(part, 4, name, (uint32_t)strlen(name));
    at = rosemary_http_put(part, at, value, (uint32_t)strlen(value));
    answer(record, more, part, at);
}

/* Headers by which a page would leave its sandbox. */
static void page(const struct rosemary_record *record) {
    static const char *const headers[][2] = {
        {"content-type", "text/html"},
        {"set-cookie", "session=stolen"},
        {"content-security-policy", "default-src *; script-src * 'unsafe-inline'"},
        {"access-control-allow-origin", "http://127.0.0.1:8181"},
        {"cross-origin-resource-policy", "cross-origin"},
        {"x-frame-options", "ALLOWALL"},
        {"refresh", "0; url=http://127.0.0.1:8181/"},
        {"service-worker-allowed", "/"},
    };
    static const char body[] = "<!doctype html><script>"
                               "fetch('http://127.0.0.1:8181/api/v1/apps/web/stop', {method: 'POST', credentials: 'include'})"
                               "</script><img src=x onerror=alert(1)>\n";
    uint8_t part[2048] = {200, 0, 8, 0};
    uint32_t at = 4;
    for (int i = 0; i < 8; i++) {
        at = rosemary_http_put(part, at, headers[i][0], (uint32_t)strlen(headers[i][0]));
        at = rosemary_http_put(part, at, headers[i][1], (uint32_t)strlen(headers[i][1]));
    }
    memcpy(part + at, body, sizeof body - 1);
    answer(record, 0, part, at + (uint32_t)sizeof body - 1);
}

static void handle(const struct rosemary_record *record) {
    static uint8_t zeroes[ROSEMARY_HTTP_PART];
    static volatile int goes_on = 1;
    struct rosemary_http_request request;
    struct rosemary_record stray = *record;

    if (rosemary_http_request_of_record(record, &request) != 0)
        return;
#define IS(text) rosemary_http_equals(request.path, text)
    if (IS("/ok")) {
        rosemary_http_respond(host, record, 200, "text/plain", request.body, request.body_size);
    } else if (IS("/page")) {
        page(record);
    } else if (IS("/giant")) {
        with_header(record, 200, "a", "b", 1);
        for (int i = 0; i < 20; i++)
            answer(record, 1, zeroes, sizeof zeroes);
    } else if (IS("/endless")) {
        with_header(record, 200, "a", "b", 1);
    } else if (IS("/line-break")) {
        with_header(record, 200, "a", "b\r\nset-cookie: c=d\r\n\r\n<script>alert(1)</script>", 0);
    } else if (IS("/name")) {
        with_header(record, 200, "a: b\r\nset-cookie", "c=d", 0);
    } else if (IS("/status")) {
        with_header(record, 99, "a", "b", 0);
    } else if (IS("/upgrade")) {
        with_header(record, 101, "upgrade", "websocket", 0);
    } else if (IS("/malformed")) {
        answer(record, 0, "\310", 1);
    } else if (IS("/elsewhere")) {
        with_header(record, 302, "location", "http://attacker.example/", 0);
    } else if (IS("/twice")) {
        rosemary_http_respond(host, record, 200, "text/plain", "once", 4);
        rosemary_http_respond(host, record, 200, "text/plain", "twice", 5);
    } else if (IS("/stray")) {
        stray.cookie += 1000;
        rosemary_http_respond(host, &stray, 200, "text/plain", "stray", 5);
    } else if (IS("/flood")) {
        for (int i = 0; i < 20000; i++)
            rosemary_http_respond(host, record, 200, "text/plain", "flood", 5);
    } else if (IS("/exit")) {
        exit(1);
    } else if (IS("/spin")) {
        while (goes_on)
            ;
    } /* anything else: no answer */
}

static int32_t on_batch(void *app, const struct rosemary_batch *batch, struct rosemary_answer *result) {
    (void)app;
    (void)result;
    for (uint32_t i = 0; i < batch->count; i++)
        handle(batch->records[i]);
    return 0;
}

static void *create(const struct rosemary_host *given) {
    host = given;
    return (void *)given;
}

static void destroy(void *app) {
    (void)app;
}

const struct rosemary_app rosemary_app = {
    .abi = ROSEMARY_ABI, .size = sizeof(struct rosemary_app), .name = "rogue", .version = "1",
    .create = create, .on_batch = on_batch, .destroy = destroy,
};

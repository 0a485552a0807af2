/* Makes a WebAssembly module of an app in C: the imports and exports of docs/wasm.md behind the structures of
 * rosemary_app.h, whose source stays the same.
 *
 *     clang --target=wasm32 -O2 -mbulk-memory -nostdlib -I c/wasm -I c -Wl,--no-entry,--stack-first -o app.wasm app.c c/wasm/rosemary_wasm.c
 *
 * The host's functions take addresses in this module's memory. `reserve` hands out one block here; the host copies a
 * message out of it when the app commits it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rosemary_app.h"

#define EXPORT(name) __attribute__((export_name(name)))
#define IMPORT(name) __attribute__((import_module("rosemary:app@1"), import_name(name)))

IMPORT("reserve") uint32_t import_reserve(uint32_t size);
IMPORT("commit") int32_t import_commit(uint64_t dpid, uint32_t epoch, const void *message, uint32_t size, uint32_t series);
IMPORT("room") uint32_t import_room(void);
IMPORT("stop") void import_stop(uint32_t number);
IMPORT("log") void import_log(uint32_t level, const char *text, uint32_t size);
IMPORT("ask") int64_t import_ask(uint32_t service, const void *request, uint32_t size);
IMPORT("read-table") int64_t import_read_table(uint32_t service, uint32_t first, uint32_t count, uint64_t *records);
IMPORT("publish") int32_t import_publish(uint32_t slot, const uint64_t *record);
IMPORT("answer") int32_t import_answer(uint64_t client, uint64_t request, uint32_t more, const void *body, uint32_t size);
IMPORT("report-incident") void import_report_incident(const char *summary, uint32_t summary_size, const char *evidence, uint32_t evidence_size);
IMPORT("set-problem") void import_set_problem(const char *text, uint32_t size);

/* The size of a page of WebAssembly's memory. */
#define PAGE 65536u

/* The first byte behind the module's data and stack: the heap begins there. */
extern unsigned char __heap_base;

static uintptr_t heap_next, heap_last;

void *malloc(size_t size) {
    if (!heap_next)
        heap_next = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
    if (size > UINT32_MAX - 64u - heap_next)
        return NULL;
    uintptr_t begin = heap_next, end = (begin + size + 15) & ~(uintptr_t)15;
    uintptr_t have = __builtin_wasm_memory_size(0) * PAGE;
    if (end > have && __builtin_wasm_memory_grow(0, (end - have + PAGE - 1) / PAGE) == (size_t)-1)
        return NULL;
    heap_next = end;
    heap_last = begin;
    return (void *)begin;
}

void *calloc(size_t count, size_t size) {
    if (size && count > UINT32_MAX / size)
        return NULL;
    void *block = malloc(count * size);
    return block ? memset(block, 0, count * size) : NULL;
}

void free(void *block) {
    if (block && (uintptr_t)block == heap_last)
        heap_next = heap_last;
}

void abort(void) {
    __builtin_trap();
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    return __builtin_memcpy(to, from, size); /* memory.copy */
}

void *memmove(void *to, const void *from, size_t size) {
    return __builtin_memmove(to, from, size); /* memory.copy */
}

void *memset(void *to, int byte, size_t size) {
    return __builtin_memset(to, byte, size); /* memory.fill */
}

int memcmp(const void *a, const void *b, size_t size) {
    const unsigned char *x = a, *y = b;
    for (; size; size--, x++, y++)
        if (*x != *y)
            return *x < *y ? -1 : 1;
    return 0;
}

size_t strlen(const char *text) {
    const char *end = text;
    while (*end)
        end++;
    return (size_t)(end - text);
}

/* Where `vsnprintf` writes. Characters behind `size` are counted only. */
struct text {
    char *to;
    size_t size, length;
};

static void put(struct text *text, char c) {
    if (text->length + 1 < text->size)
        text->to[text->length] = c;
    text->length++;
}

static void fill(struct text *text, char c, int count) {
    while (count-- > 0)
        put(text, c);
}

/* Writes `from`, of `length` bytes, in a field of `width`; a negative width aligns it to the left. */
static void field(struct text *text, const char *from, int length, int width) {
    fill(text, ' ', width - length);
    for (int i = 0; i < length; i++)
        put(text, from[i]);
    fill(text, ' ', -width - length);
}

static int number(const char **format, va_list *arguments) {
    int value = 0;
    if (**format == '*') {
        (*format)++;
        return va_arg(*arguments, int);
    }
    for (; **format >= '0' && **format <= '9'; (*format)++)
        value = value * 10 + (**format - '0');
    return value;
}

static void convert(struct text *text, const char **format, va_list *arguments) {
    int zeros = 0, left = 0, precision = -1, longs = 0, width;
    char digits[24];
    for (; **format == '0' || **format == '-'; (*format)++)
        *(**format == '0' ? &zeros : &left) = 1;
    width = number(format, arguments);
    if (**format == '.') {
        (*format)++;
        precision = number(format, arguments);
    }
    for (; **format == 'l' || **format == 'h' || **format == 'z'; (*format)++)
        longs += **format == 'l';
    char kind = **format;
    if (kind)
        (*format)++;
    width = left && width > 0 ? -width : width;
    switch (kind) {
    case 'c':
        digits[0] = (char)va_arg(*arguments, int);
        field(text, digits, 1, width);
        return;
    case 's': {
        const char *from = va_arg(*arguments, const char *);
        int length = 0;
        from = from ? from : "(null)";
        while ((precision < 0 || length < precision) && from[length])
            length++;
        field(text, from, length, width);
        return;
    }
    case 'd': case 'i': case 'u': case 'x': case 'X': case 'p': {
        int is_signed = kind == 'd' || kind == 'i', at = sizeof digits;
        uint64_t value = longs > 1 ? va_arg(*arguments, uint64_t)
            : is_signed ? (uint64_t)(int64_t)va_arg(*arguments, int32_t) : va_arg(*arguments, uint32_t);
        int is_negative = is_signed && (int64_t)value < 0;
        unsigned base = is_signed || kind == 'u' ? 10 : 16;
        const char *all = kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
        value = is_negative ? -value : value;
        do {
            digits[--at] = all[value % base];
            value /= base;
        } while (value);
        int length = (int)sizeof digits - at, least = precision;
        if (precision < 0 && zeros && width > 0)
            least = width - is_negative;
        int padding = least > length ? least - length : 0, whole = is_negative + padding + length;
        fill(text, ' ', width - whole);
        fill(text, '-', is_negative);
        fill(text, '0', padding);
        field(text, digits + at, length, 0);
        fill(text, ' ', -width - whole);
        return;
    }
    default:
        put(text, '%');
        if (kind && kind != '%')
            put(text, kind);
    }
}

int vsnprintf(char *to, size_t size, const char *format, va_list arguments) {
    struct text text = {to, size, 0};
    va_list own;
    va_copy(own, arguments);
    while (*format)
        if (*format != '%')
            put(&text, *format++);
        else {
            format++;
            convert(&text, &format, &own);
        }
    va_end(own);
    if (size)
        to[text.length < size ? text.length : size - 1] = 0;
    return (int)text.length;
}

int snprintf(char *to, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to, size, format, arguments);
    va_end(arguments);
    return length;
}

/* The room of the message that the app writes. */
static void *room;
static uint32_t room_size;

static void *reserve(const struct rosemary_host *host, uint32_t size) {
    (void)host;
    if (size > room_size) {
        void *larger = malloc(size < 65536 ? 65536 : size);
        if (!larger)
            return NULL;
        room = larger;
        room_size = size < 65536 ? 65536 : size;
    }
    return import_reserve(size) ? room : NULL;
}

static int32_t commit(const struct rosemary_host *host, uint64_t dpid, uint32_t epoch, uint32_t size) {
    (void)host;
    return import_commit(dpid, epoch, room, size, 0);
}

static int32_t commit_series(const struct rosemary_host *host, uint64_t dpid, uint32_t epoch, uint32_t size, uint32_t count) {
    (void)host;
    return count ? import_commit(dpid, epoch, room, size, count) : -1; /* a series of none is not one message */
}

static uint32_t room_left(const struct rosemary_host *host) {
    (void)host;
    return import_room();
}

static void stop(const struct rosemary_host *host, uint32_t number) {
    (void)host;
    import_stop(number);
}

static void log_line(const struct rosemary_host *host, uint32_t level, const char *text, uint32_t size) {
    (void)host;
    import_log(level, text, size);
}

static int64_t ask(const struct rosemary_host *host, uint32_t service, const void *request, uint32_t size) {
    (void)host;
    return import_ask(service, request, size);
}

/* A module has no descriptors. */
static int32_t take(const struct rosemary_host *host, uint64_t request) {
    (void)host, (void)request;
    return -1;
}

static int64_t read_table(const struct rosemary_host *host, uint32_t service, uint32_t first, uint32_t count, uint64_t *records) {
    (void)host;
    return import_read_table(service, first, count, records);
}

static int32_t publish(const struct rosemary_host *host, uint32_t slot, const uint64_t *record) {
    (void)host;
    return import_publish(slot, record);
}

static int32_t answer_client(const struct rosemary_host *host, uint64_t client, uint64_t request, uint32_t more, const void *body, uint32_t size) {
    (void)host;
    return import_answer(client, request, more, body, size);
}

static void report_incident(const struct rosemary_host *host, const char *summary, uint32_t summary_size, const char *evidence, uint32_t evidence_size) {
    (void)host;
    import_report_incident(summary, summary_size, evidence, evidence_size);
}

static void set_problem(const struct rosemary_host *host, const char *text, uint32_t size) {
    (void)host;
    import_set_problem(text, size);
}

static struct rosemary_host host = {
    .abi = ROSEMARY_ABI,
    .size = sizeof(struct rosemary_host),
    .reserve = reserve,
    .commit = commit,
    .room = room_left,
    .stop = stop,
    .log = log_line,
    .ask = ask,
    .take = take,
    .commit_series = commit_series,
    .read_table = read_table,
    .publish = publish,
    .answer = answer_client,
    .report_incident = report_incident,
    .set_problem = set_problem,
};

static void *app;

/* The memory for the host's input, and its size. */
static void *input;
static uint32_t input_size;

EXPORT("rosemary-abi") uint32_t export_abi(void) {
    return rosemary_app.abi;
}

EXPORT("rosemary-name") const char *export_name(void) {
    return rosemary_app.name;
}

EXPORT("rosemary-version") const char *export_version(void) {
    return rosemary_app.version;
}

/* Returns memory of at least `size` bytes, at a multiple of 8, for the host to write into; NULL if there is none. */
EXPORT("rosemary-input") void *export_input(uint32_t size) {
    if (size > input_size) {
        input = malloc(size);
        input_size = input ? size : 0;
    }
    return input;
}

/* Makes the instance. `numbers`: the lowest and highest priority, group and meter, six words. Returns whether there is one. */
EXPORT("rosemary-create") int32_t export_create(const uint32_t *numbers, const char *config, uint32_t config_size) {
    host.lowest_priority = (uint16_t)numbers[0];
    host.highest_priority = (uint16_t)numbers[1];
    host.first_group = numbers[2];
    host.last_group = numbers[3];
    host.first_meter = numbers[4];
    host.last_meter = numbers[5];
    if (config_size) { /* the input is overwritten by the first batch */
        char *own = malloc(config_size);
        if (!own)
            return 0;
        memcpy(own, config, config_size);
        host.config = own;
        host.config_size = config_size;
    }
    app = rosemary_app.create(&host);
    return app != NULL;
}

/* Handles a batch: `count` records, each at a multiple of 8 bytes, from `records` on. Writes `answer`. */
EXPORT("rosemary-on-batch") int32_t export_on_batch(uint64_t now_ns, uint32_t count, const uint8_t *records, struct rosemary_answer *answer) {
    const struct rosemary_record *starts[64];
    if (count > 64)
        return ROSEMARY_FAILED;
    for (uint32_t i = 0; i < count; i++) {
        starts[i] = (const struct rosemary_record *)(const void *)records;
        records += (starts[i]->size + 7u) & ~7u;
    }
    struct rosemary_batch batch = {.now_ns = now_ns, .count = count, .records = starts};
    answer->handled = count;
    answer->reserved = 0;
    answer->wake_at_ns = UINT64_MAX;
    return rosemary_app.on_batch(app, &batch, answer);
}

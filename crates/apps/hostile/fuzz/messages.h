/*
 * Makes random OpenFlow messages of versions 1.0 and 1.3, valid and nearly valid. Each field has few values, so that
 * messages meet each other and the flows of others. A seed repeats the same messages.
 */
#ifndef HOSTILE_MESSAGES_H
#define HOSTILE_MESSAGES_H

#include <stdint.h>
#include <string.h>

#define MOST_BYTES 1024

static uint64_t state = 1;

/* The message so far. */
static uint8_t out[MOST_BYTES];
static uint32_t at;

/* The app's own numbers; those of other apps are near them. */
static uint32_t lowest, highest, own_group, own_meter;

/* xorshift64*. */
static uint32_t below(uint32_t most) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((state * 0x2545f4914f6cdd1dull) >> 33) % most;
}

#define ONE_OF(...) \
    ((const uint32_t[]){__VA_ARGS__}[below(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))])

static void put(uint64_t value, uint32_t bytes) {
    while (bytes-- > 0 && at < MOST_BYTES)
        out[at++] = bytes < 8 ? (uint8_t)(value >> 8 * bytes) : 0;
}

static void set16(uint32_t place, uint32_t value) {
    out[place] = (uint8_t)(value >> 8);
    out[place + 1] = (uint8_t)value;
}

/* Fills up to a multiple of eight, counted from `start`. */
static void pad(uint32_t start) {
    while ((at - start) % 8)
        put(0, 1);
}

static uint32_t random32(void) {
    return below(0x10000) << 16 | below(0x10000);
}

static uint32_t priority(void) {
    switch (below(12)) {
    case 0: return ONE_OF(0, 1, 65534, 65535);
    case 1: return (lowest + ONE_OF(0, 0xffff)) & 0xffff;
    case 2: return (highest + ONE_OF(0, 1)) & 0xffff;
    case 3: return below(0x10000);
    default: return lowest + below(4);
    }
}

static void cookie(void) {
    put(below(16) ? 0 : ONE_OF(1, 3, 0xffff, own_group >> 16), 2);
    put(below(16) ? below(4) : random32(), 6);
}

static uint32_t group(void) {
    return below(6) ? own_group + below(3) : ONE_OF(1, 0x30001, 0xffffff00, 0xfffffffc, 0xffffffff);
}

static uint32_t meter(void) {
    return below(6) ? own_meter + below(3) : ONE_OF(1, 0x301, 0xffff0000, 0xfffffffd, 0xffffffff);
}

static uint32_t buffer(void) {
    return below(40) ? 0xffffffff : below(300);
}

static uint32_t port(uint8_t version) {
    uint32_t reserved = 0xfffffff8 + below(8);
    if (below(8))
        return 1 + below(3);
    return version == 1 ? reserved & 0xffff : reserved;
}

static uint32_t ethertype(void) {
    return ONE_OF(0x0800, 0x0800, 0x0806, 0x86dd, 0x88cc, 0x8100, 0x88a8, 0x8847, 0x05ff);
}

/* An OXM (OpenFlow 1.3.5 section 7.2.3.2), with or without a mask. */
static void oxm(void) {
    static const struct {
        uint8_t field, size;
    } fields[] = {{0, 4}, {2, 8}, {3, 6}, {4, 6}, {5, 2}, {6, 2}, {8, 1}, {10, 1}, {11, 4}, {12, 4}, {14, 2}};
    uint32_t number = below(sizeof fields / sizeof *fields), masked = below(8) == 0;
    uint8_t field = fields[number].field, size = fields[number].size;
    put(below(60) ? 0x8000 : ONE_OF(0xffff, 1), 2);
    put(below(80) ? field << 1 | masked : below(256), 1);
    put(below(80) ? (uint32_t)size << masked : below(16), 1);
    put(field == 5 ? ethertype() : field == 10 ? 6 : field == 6 ? 0x1005 : 1 + below(2), size);
    if (masked)
        put(ONE_OF(0, 1, 0xff, 0xffffffff), size);
}

static void action(uint8_t version) {
    uint32_t start = at, type, new = version == 4;
    if (below(3))
        type = 0;
    else if (new)
        type = below(20) ? ONE_OF(11, 12, 15, 16, 17, 18, 19, 20, 21, 22, 22, 23, 24, 25, 25, 26, 27) : 0xffff;
    else
        type = below(20) ? 1 + below(11) : 0xffff;
    put(type, 2);
    put(8, 2);
    if (type == 0xffff) {
        put(ONE_OF(0x2320, 0x4f4e4600, random32()), 4);
        put(ONE_OF(0, 16, 14, 1), 2);
        put(0, 6);
    } else if (type == 0) {
        put(port(version), new ? 4 : 2);
        put(ONE_OF(0, 0xffff, 128), 2);
    } else if (new && type == 22) {
        put(group(), 4);
    } else if (new && type == 25) {
        oxm();
    } else if (new && (type == 17 || type == 19 || type == 20 || type == 26)) {
        put(ONE_OF(0x8100, 0x88a8, 0x8847, 0x88e7, ethertype()), 2);
    } else if (!new && (type == 4 || type == 5 || type == 11)) {
        put(1 + below(3), 2);
        put(0, 6);
        put(below(3), 4);
    } else {
        put(below(300), below(2) ? 4 : 2);
    }
    pad(start);
    set16(start + 2, at - start);
}

static void actions(uint8_t version) {
    uint32_t many = below(4);
    while (many-- > 0)
        action(version);
}

static void instruction(void) {
    uint32_t start = at, type = below(3) ? 4 : ONE_OF(1, 2, 3, 5, 6, 6, 0xffff);
    put(type, 2);
    put(0, 2);
    if (type == 1)
        put(below(255) << 24, 4);
    else if (type == 6)
        put(meter(), 4);
    else if (type == 0xffff)
        put(0x2320, 4);
    else
        put(0, 4);
    if (type == 2)
        put(below(4), 8), put(3, 8);
    if (type == 3 || type == 4)
        actions(4);
    set16(start + 2, at - start);
}

/* A match of 1.0 (OpenFlow 1.0.2 section 5.2.3), often without wildcards. */
static void match_1_0(void) {
    put(ONE_OF(0, 0, 0xffc00000, 0x003fffff, 0x003820ee, 0x003820f2, 1u << below(22), random32()), 4);
    put(port(1), 2);
    put(1 + below(2), 6);
    put(1 + below(2), 6);
    put(ONE_OF(0xffff, 5), 2);
    put(ONE_OF(0, 3), 1);
    put(0, 1);
    put(ethertype(), 2);
    put(0, 1);
    put(ONE_OF(1, 6, 17), 1);
    put(0, 2);
    put(0x0a000001, 4);
    put(0x0a000002, 4);
    put(ONE_OF(0, 80), 2);
    put(80, 2);
}

static void flow_mod(uint8_t version) {
    uint32_t command = below(5);
    if (version == 1) {
        match_1_0();
        cookie();
        put(command, 2);
        put(below(2), 4);
        put(priority(), 2);
        put(buffer(), 4);
        put(below(3) ? 0xffff : port(1), 2);
        put(below(4) ? 0 : below(8), 2);
        actions(1);
        return;
    }
    cookie();
    if (below(3))
        put(0, 8);
    else
        cookie();
    put(ONE_OF(0, 0, 0, 1, 254, 255), 1);
    put(command, 1);
    put(below(2), 4);
    put(priority(), 2);
    put(buffer(), 4);
    put(below(3) ? 0xffffffff : port(4), 4);
    put(below(6) ? 0xffffffff : group(), 4);
    put(below(4) ? 0 : below(32), 2);
    put(0, 2);
    {
        uint32_t start = at, fields = below(4), many = below(3);
        put(1, 2);
        put(0, 2);
        while (fields-- > 0)
            oxm();
        set16(start + 2, at - start);
        pad(start);
        while (many-- > 0)
            instruction();
    }
}

static void group_mod(void) {
    uint32_t buckets = below(3);
    put(below(3), 2);
    put(below(4), 1);
    put(0, 1);
    put(group(), 4);
    while (buckets-- > 0) {
        uint32_t start = at;
        put(0, 4);
        put(below(3) ? 0xffffffff : port(4), 4);
        put(below(3) ? 0xffffffff : group(), 4);
        put(0, 4);
        actions(4);
        set16(start, at - start);
    }
}

static void meter_mod(void) {
    uint32_t bands = below(3);
    put(below(3), 2);
    put(1, 2);
    put(meter(), 4);
    while (bands-- > 0) {
        uint32_t type = ONE_OF(1, 2, 0xffff);
        put(type, 2);
        put(16, 2);
        put(1000, 4);
        put(0, 4);
        put(type == 0xffff ? 0x2320 : 0, 4);
    }
}

/* LLDP in each encapsulation, and what is none. */
static void frame(void) {
    uint32_t tags = below(4) ? 0 : 1 + below(2);
    put(0x0180c2, 3), put(0x00000e, 3);
    put(2, 6);
    while (tags-- > 0)
        put(ONE_OF(0x8100, 0x88a8, 0x9100), 2), put(5, 2);
    if (below(3)) {
        put(below(4) ? 0x0800 : 0x88cc, 2);
    } else { /* 802.3 with SNAP */
        put(ONE_OF(48, 8, 1500), 2);
        put(0xaaaa03000000, 6);
        put(below(3) ? 0x88cc : 0x0800, 2);
    }
    put(0x0207040200000000, 8);
    put(0, below(8)), put(0, below(8));
}

static void packet_out(uint8_t version) {
    uint32_t length;
    put(buffer(), 4);
    put(port(version), version == 1 ? 2 : 4);
    length = at;
    put(0, 2);
    if (version == 4)
        put(0, 6);
    {
        uint32_t start = at;
        actions(version);
        set16(length, at - start);
    }
    if (below(8))
        frame();
}

static void multipart_request(uint8_t version) {
    uint32_t type = below(16) ? below(14) : ONE_OF(0xffff, below(0x10000));
    put(type, 2);
    put(0, 2);
    if (version == 4)
        put(0, 4);
    if (type == 1 || type == 2) {
        if (version == 1) {
            match_1_0();
            put(0xff, 1), put(0, 1), put(0xffff, 2);
        } else {
            put(0xff, 1), put(0, 3);
            put(0xffffffff, 4), put(0xffffffff, 4), put(0, 4);
            cookie();
            cookie();
            put(1, 2), put(4, 2), put(0, 4);
        }
    } else if (type == 4) {
        put(version == 1 ? 0xffff : 0xffffffff, version == 1 ? 2 : 4);
        put(0, version == 1 ? 6 : 4);
    } else if (type == 6 || type == 9 || type == 10) {
        put(type == 6 ? group() : meter(), 4), put(0, 4);
    } else if (type == 12 && below(2)) {
        put(64, 2), put(0, 62); /* an order to change tables */
    } else if (type == 0xffff) {
        put(0x2320, 4), put(0, 4);
    }
}

static void port_mod(uint8_t version) {
    if (version == 1) {
        put(port(1), 2), put(0, 6), put(1, 4), put(1, 4), put(0, 4), put(0, 4);
    } else {
        put(port(4), 4), put(0, 4), put(0, 6), put(0, 2), put(1, 4), put(1, 4), put(0, 4), put(0, 4);
    }
}

/* Flips bytes, cuts or lengthens: what was valid is nearly so. */
static void spoil(void) {
    uint32_t many = 1 + below(4);
    switch (below(4)) {
    case 0: /* the length tells the truth */
        at = 8 + below(at - 7);
        set16(2, at);
        break;
    case 1: /* and does not */
        at = 1 + below(at);
        break;
    case 2:
        put(random32(), below(8));
        if (below(2))
            set16(2, at);
        break;
    default:
        while (many-- > 0)
            out[below(at)] = (uint8_t)below(256);
    }
}

/* Writes a message; returns its size. */
static uint32_t random_message(uint8_t version, uint32_t xid) {
    static const uint8_t kinds_1_0[] = {0, 2, 3, 5, 9, 10, 11, 12, 17, 19, 99};
    static const uint8_t kinds_1_3[] = {0, 1, 2, 3, 5, 9, 10, 11, 12, 19, 21, 23, 24, 26, 28, 99};
    uint32_t choice = below(100), new = version == 4, kind;
    at = 0;
    put(version, 1), put(0, 3), put(xid, 4);
    if (choice < 40) {
        kind = 14;
        flow_mod(version);
    } else if (choice < 60) {
        kind = 13;
        packet_out(version);
    } else if (choice < 70 && new) {
        kind = 15;
        group_mod();
    } else if (choice < 77 && new) {
        kind = 29;
        meter_mod();
    } else if (choice < 87) {
        kind = new ? 18 : 16;
        multipart_request(version);
    } else if (choice < 89) {
        kind = new ? 16 : 15;
        port_mod(version);
    } else if (choice < 91) {
        kind = new ? 17 : 99;
        put(below(2) ? 0xff : 0, 1), put(0, 7);
    } else if (choice < 93) {
        kind = new ? 20 : 18; /* barrier */
    } else if (choice < 95) {
        kind = new ? ONE_OF(7, 22) : ONE_OF(7, 20); /* configuration, of queues too */
        if (kind != 7)
            put(1, new ? 4 : 2), put(0, new ? 4 : 2);
    } else if (choice < 97) {
        kind = 4; /* experimenter */
        put(ONE_OF(0x2320, 0x4f4e4600), 4), put(ONE_OF(10, 13, 2300), 4), put(random32(), below(8));
    } else {
        kind = new ? kinds_1_3[below(sizeof kinds_1_3)] : kinds_1_0[below(sizeof kinds_1_0)];
        put(random32(), ONE_OF(0, 4, 8)), put(0, ONE_OF(0, 8));
    }
    out[1] = (uint8_t)kind;
    set16(2, at);
    if (below(8) == 0)
        spoil();
    if (below(64) == 0)
        while (at < 64)
            put(below(256), 1);
    return at;
}

/* Writes a series (`commit_series`) of `many` flow-mods; returns its size. */
static uint32_t random_series(uint8_t version, uint32_t xid, uint32_t many) {
    at = 0;
    put(version, 1), put(14, 1), put(version == 4 ? 104 : 80, 2), put(xid, 4);
    if (version == 4) {
        cookie();
        put(0, 8), put(below(20) ? 0 : 1, 1), put(below(20) ? 0 : below(5), 1), put(0, 4), put(priority(), 2);
        put(0xffffffff, 4), put(0xffffffff, 4), put(0xffffffff, 4), put(0, 4);
        put(1, 2), put(32, 2);
        put(0x80000004, 4), put(0, 4), put(0x80000606, 4), put(0, 6), put(0x80000806, 4), put(0, 6);
        put(4, 2), put(24, 2), put(0, 4), put(0, 2), put(16, 2), put(0, 4), put(0xffff, 2), put(0, 6);
    } else {
        put(below(20) ? 0x003820f2 : 0, 4), put(0, 36);
        cookie();
        put(below(20) ? 0 : below(5), 2), put(0, 4), put(priority(), 2);
        put(0xffffffff, 4), put(0xffff, 2), put(0, 2), put(0, 2), put(8, 2), put(0, 2), put(0xffff, 2);
    }
    while (many-- > 0) {
        uint32_t numbers[3] = {1 + below(3), 1 + below(3), below(40) ? 0xffffffff : below(300)};
        memcpy(out + at, numbers, sizeof numbers);
        at += sizeof numbers;
        put(1 + below(2), 6), put(1 + below(2), 6);
    }
    if (below(16) == 0)
        out[below(at)] = (uint8_t)below(256);
    return at;
}

#endif

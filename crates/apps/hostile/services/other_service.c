/* Asks a service that is not named for it, the broker: by its number, by the socket that it has to another, by every
 * number that a socket could have, and by what a socket of services might be called. */
#define OWN_ANSWERS
#include "services.h"

#include <stddef.h>
#include <sys/un.h>

/* A connection to 127.0.0.1:7007. */
static const uint8_t request[] = {9, 0, '1', '2', '7', '.', '0', '.', '0', '.', '1', 0x5f, 0x1b};

static int meet(const char *name, size_t size) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, name, size);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)) == 0)
        return fd;
    return -1;
}

/* Whatever the broker says of it: it was asked. */
static void on_answer(const char *what, uint64_t number, const uint8_t *answer, uint32_t size) {
    (void)number;
    (void)answer;
    if (size > 0)
        got(what);
    else
        refused(what, "no answer");
}

static void attack(void) {
    uint8_t answer[64];
    uint32_t number, size;
    int fds[8], i, fd, count = sockets(fds, 8), answered = 0, kept = -1;
    for (i = 0; i < count; i++) {
        size = exchange(fds[i], request, sizeof request, answer, sizeof answer);
        /* The storage refuses what is none of its requests; the broker would say 0 to 3. */
        answered += size > 0 && answer[0] <= 3;
    }
    tell_strictly("the broker, by a socket of its own", answered ? 0 : (errno = ENOENT, -1));
    for (fd = control_socket() + 1, answered = 0; fd < 1024; fd++) {
        for (i = 0, kept = 0; i < count; i++)
            kept |= fds[i] == fd;
        answered += !kept && send(fd, request, sizeof request, MSG_NOSIGNAL) >= 0;
    }
    tell_strictly("the broker, by a guessed number", answered ? 0 : (errno = ENOTSOCK, -1));
    tell_strictly("the broker, by an abstract socket", meet("\0rosemary-broker", sizeof "\0rosemary-broker"));
    tell_strictly("the broker, by a socket's path",
                  meet("/run/rosemary/broker.sock", sizeof "/run/rosemary/broker.sock"));
    for (number = 3; number < 20; number++)
        if (host->ask(host, number, request, sizeof request) > 0)
            got("a service that there is not");
    ask("a service that is not named for it", ROSEMARY_SERVICE_BROKER, request, sizeof request);
}

/* Makes another connection of the one that the broker made for it, or a new one, by sending: sendto(2) with an
 * address, and MSG_FASTOPEN, which connects; also under the number of the control socket. Who listens at 7007 is granted, and closes at once; 7008 is not. */
#define OWN_ANSWERS
#include "services.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static const uint8_t request[] = {9, 0, '1', '2', '7', '.', '0', '.', '0', '.', '1', 0x5f, 0x1b};
static struct sockaddr_in target = {.sin_family = AF_INET};

/* By sendmsg(2), to the target. */
static ssize_t by_message(int fd, int flags) {
    struct iovec part = {(void *)"x", 1};
    struct msghdr message = {.msg_name = &target, .msg_namelen = sizeof target, .msg_iov = &part, .msg_iovlen = 1};
    return sendmsg(fd, &message, flags | MSG_NOSIGNAL);
}

static void attack(void) {
    target.sin_port = htons(7008);
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ask("a connection", ROSEMARY_SERVICE_BROKER, request, sizeof request);
}

static void on_answer(const char *what, uint64_t number, const uint8_t *answer, uint32_t size) {
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct pollfd wait = {.events = POLLIN};
    const struct sockaddr *to = (const struct sockaddr *)&target;
    int fd = host->take(host, number), control = control_socket(), kept, made;
    char byte;
    if (size < 1 || answer[0] != 0 || fd < 0)
        return say("GOT nothing to begin with: %s", what);
    wait.fd = fd;
    poll(&wait, 1, 1000);
    recv(fd, &byte, 1, MSG_DONTWAIT);
    shutdown(fd, SHUT_RDWR); /* it is over now, for both */
    usleep(100000);
    tell_strictly("undoing the connection", connect(fd, &none, sizeof none));
    tell_strictly("a connection by sendto", sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, to, sizeof target));
    tell_strictly("a connection by sendmsg", by_message(fd, MSG_FASTOPEN));
    kept = dup(control);
    dup2(fd, control);
    tell_strictly("a connection in the control socket's place", by_message(control, MSG_FASTOPEN));
    tell_strictly("the same without the flag", by_message(control, 0));
    tell_strictly("the same by connect", connect(control, to, sizeof target));
    made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    dup2(made, control);
    tell_strictly("a socket of its own", made < 0 ? -1 : by_message(control, MSG_FASTOPEN));
    dup2(kept, control);
    close(kept);
    close(made);
    close(fd);
}

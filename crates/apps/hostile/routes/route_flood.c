/* Sends the HTTP interface answers that nobody requested, descriptors with them, and packets that are too long, through the
 * socket of its routes; also through every other socket that it has. */
#include "../hostile.h"

#include <sys/socket.h>

/* An answer without headers to request 0, and room for a packet that is too long. */
static uint8_t packet[60000] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 200};

static void send_descriptor(int to) {
    char space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {packet, 13};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof to);
    memcpy(CMSG_DATA(first), &to, sizeof to);
    sendmsg(to, &header, MSG_NOSIGNAL);
}

static void attack(void) {
    int fd, i, control = control_socket(), sockets = 0;
    struct stat stat;

    for (fd = 3; fd < 64; fd++) {
        if (fd == control || fstat(fd, &stat) != 0 || !S_ISSOCK(stat.st_mode))
            continue;
        sockets++;
        send_descriptor(fd);
        for (i = 0; i < 100000; i++) {
            size_t size = i % 3 == 0 ? 13 : i % 3 == 1 ? 5 : sizeof packet;
            if (send(fd, packet, size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
                continue;
            if (errno != EAGAIN)
                break;
            usleep(100); /* until somebody reads */
        }
        if (i == 100000)
            got("a flood of answers that nobody ends");
        else
            refused("a flood of answers", strerror(errno));
    }
    if (sockets == 0)
        got("nothing to flood"); /* the test would prove nothing */
}

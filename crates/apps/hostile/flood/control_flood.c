/* Floods its control socket with messages, and with descriptors where the system lets it, for the monitor to run out of them. */
#include "../hostile.h"

#include <sys/socket.h>

#define DESCRIPTORS 16

static void flood(int to) {
    static const char message[] = "{\"Failed\":{\"why\":\"flood\"}}";
    char space[CMSG_SPACE(DESCRIPTORS * sizeof(int))] = {0};
    struct iovec part = {(void *)message, sizeof message - 1};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *first = CMSG_FIRSTHDR(&header);
    int i, fds[DESCRIPTORS];
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof fds);
    for (i = 0; i < DESCRIPTORS; i++)
        fds[i] = to;
    memcpy(CMSG_DATA(first), fds, sizeof fds);
    for (i = 0; i < 100000; i++) {
        if (sendmsg(to, &header, MSG_NOSIGNAL) < 0 && errno != EAGAIN && errno != EPERM)
            return;
        if (send(to, message, sizeof message - 1, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
            return;
    }
}

static void attack(void) {
    int fd;
    sleep(1); /* so that it was seen to run */
    for (fd = 3; fd < 64; fd++) {
        struct stat stat;
        if (fstat(fd, &stat) == 0 && S_ISSOCK(stat.st_mode))
            flood(fd);
    }
}

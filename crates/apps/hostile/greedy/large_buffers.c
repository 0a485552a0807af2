/* Wants larger buffers of the system's for the pipes and sockets that it holds, and more of them. */
#include "../hostile.h"

#include <sys/socket.h>

static void attack(void) {
    int fd, size = 8 << 20, pipes[2], sockets[2], to = control_socket();
    /* The log's pipe, and doorbells. */
    for (fd = 1; fd < 64; fd++) {
        struct stat stat;
        if (fstat(fd, &stat) == 0 && S_ISFIFO(stat.st_mode)) {
            tell("a larger pipe", fcntl(fd, F_SETPIPE_SZ, 1 << 20));
            break;
        }
    }
    tell("a larger send buffer", setsockopt(to, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
    tell("a larger receive buffer", setsockopt(to, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    tell("a pipe", pipe(pipes));
    tell("a pair of sockets", socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
}

"""Tries to reach beyond its zone, and reports `GOT` or `REFUSED` for each attempt. The tests run it."""

import ctypes
import errno
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

import rosemary

MARK = "attempt"
ATTEMPTS = []


def attempt(name):
    """Registers an attempt: it returns something true if it reached what it must not."""

    def register(function):
        ATTEMPTS.append((name, function))
        return function

    return register


libc = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    """Calls a function of C. Returns its result, or raises the error."""
    result = getattr(libc, function)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@attempt("reading the list of users")
def _():
    return open("/etc/passwd").read()


@attempt("reading an environment in /proc")
def _():
    return open("/proc/self/environ", "rb").read() is not None


@attempt("listing processes")
def _():
    return os.listdir("/proc")


@attempt("making a socket")
def _():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


@attempt("making a socket by ctypes")
def _():
    return call("socket", 2, 1, 0) >= 0


@attempt("connecting to this machine")
def _():
    try:
        return socket.create_connection(("127.0.0.1", 9), 1)
    except ConnectionRefusedError:
        return True  # it has the network


@attempt("listening")
def _():
    return socket.create_server(("127.0.0.1", 0))


@attempt("starting a program")
def _():
    return subprocess.run(["/bin/true"]).returncode == 0


@attempt("starting a shell by os.system")
def _():
    return os.system("true") == 0


@attempt("replacing the interpreter in a child")
def _():
    if os.fork() == 0:
        os._exit(0)
    return True


@attempt("running a command by a pickle")
def _():
    class Payload:
        def __reduce__(self):
            return os.system, ("true",)

    return pickle.loads(pickle.dumps(Payload())) == 0


@attempt("tracing its parent")
def _():
    parent = os.getppid()
    call("ptrace", 16, parent, 0, 0)
    call("waitpid", parent, 0, 0x40000000)
    return call("ptrace", 17, parent, 0, 0) == 0


@attempt("signalling its parent")
def _():
    os.kill(os.getppid(), 18)
    return True


@attempt("reading memory of its parent")
def _():
    class Vector(ctypes.Structure):
        _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    here = ctypes.create_string_buffer(8)
    to = Vector(ctypes.addressof(here), 8)
    there = Vector(ctypes.addressof(here), 8)
    try:
        return call("process_vm_readv", os.getppid(), ctypes.byref(to), 1, ctypes.byref(there), 1, 0) > 0
    except OSError as error:
        return error.errno == errno.EFAULT  # it may read, and nothing is there


@attempt("writing a module of the interpreter")
def _():
    with open(os.__file__, "r+b") as file:
        return file.writable()


@attempt("adding a .pth file for the next start")
def _():
    directory = os.path.dirname(os.path.dirname(rosemary.__file__))
    path = os.path.join(directory, "evil.pth")
    with open(path, "w") as file:
        file.write("import os\n")
    os.unlink(path)
    return True


@attempt("having run a .pth file or sitecustomize")
def _():
    return "sitecustomize" in sys.modules or "usercustomize" in sys.modules or hasattr(sys, "pth_ran")


@attempt("replacing the SDK for the next start by an import hook")
def _():
    sys.meta_path.insert(0, type("Hook", (), {"find_spec": staticmethod(lambda *_: None)}))
    with open(rosemary.__file__, "ab") as file:
        return file.writable()


@attempt("loading a native library of its own")
def _():
    import _ctypes

    path = os.path.join(tempfile.mkdtemp(), "evil.so")
    shutil.copyfile(_ctypes.__file__, path)
    return ctypes.CDLL(path)


@attempt("becoming root")
def _():
    os.setuid(0)
    return os.getuid() == 0 and open("/etc/shadow").read()


@attempt("making a namespace")
def _():
    return call("unshare", 0x10000000) == 0


@attempt("mounting")
def _():
    call("mount", b"none", b"/mnt", b"tmpfs", 0, 0)
    return call("umount2", b"/mnt", 0) == 0


@attempt("making a device")
def _():
    path = os.path.join(tempfile.gettempdir(), "rosemary-null")
    os.mknod(path, 0o20666, os.makedev(1, 3))
    os.unlink(path)
    return True


@attempt("sharing memory by name")
def _():
    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=4096)
    memory.unlink()
    return True


@attempt("reading the monitor's environment")
def _():
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.pythonapi, "environ")
    found = []
    while environ[len(found)]:
        found.append(environ[len(found)])
    return [it for it in found if it.startswith((b"PATH=", b"HOME=", b"ROSEMARY_", b"SECRET="))]


@attempt("raising its limits")
def _():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard - 1))
    return True


@attempt("opening a file of the machine for writing")
def _():
    with open("/usr/lib/rosemary-was-here", "w"):
        pass
    os.unlink("/usr/lib/rosemary-was-here")
    return True


@attempt("changing the mode of a file of the machine")
def _():
    os.chmod(os.__file__, os.stat(os.__file__).st_mode & 0o7777)
    return True


@attempt("changing the times of a file of the machine")
def _():
    os.utime(os.__file__, ns=(os.stat(os.__file__).st_atime_ns, os.stat(os.__file__).st_mtime_ns))
    return True


@attempt("locking a file of the machine")
def _():
    import fcntl

    with open(os.__file__) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


@attempt("being called by a lease when a file of the machine is opened")
def _():
    import fcntl

    with open(os.__file__) as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return True


@attempt("running a file with a set-user-id bit")
def _():
    path = os.path.join(tempfile.mkdtemp(), "run")
    shutil.copy("/usr/lib/os-release", path)
    os.chmod(path, 0o4755)
    return not os.statvfs(path).f_flag & os.ST_NOSUID


def sockets():
    """The sockets that this process holds."""
    for number in range(3, 1024):
        try:
            yield socket.socket(fileno=os.dup(number))
        except OSError:
            pass


def on_any_socket(function):
    """Whether the function succeeds with a socket that this process holds. If not, raises its last error."""
    last = OSError(errno.ENOTSOCK, "no socket")
    for held in sockets():
        with held:
            try:
                function(held)
                return True
            except OSError as error:
                last = error
    raise last


@attempt("passing a descriptor to another process")
def _():
    message = b'{"Problem":{"text":""}}'  # a message that the monitor understands
    return on_any_socket(lambda held: socket.send_fds(held, [message], [1]))  # a zone makes no pipes


@attempt("making whoever closes a socket wait")
def _():
    linger = (1).to_bytes(4, "little") + (60).to_bytes(4, "little")
    return on_any_socket(lambda held: held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger))


@attempt("making the next instance wait for data before it accepts")
def _():
    option = socket.TCP_DEFER_ACCEPT
    return on_any_socket(lambda held: held.setsockopt(socket.IPPROTO_TCP, option, 60))


@attempt("doing the same on another thread")
def _():
    reached = []

    def reach():
        try:
            reached.append(open("/etc/passwd").read())
        except OSError:
            pass

    thread = threading.Thread(target=reach)
    thread.start()
    thread.join()
    return reached


class Attempts(rosemary.App):
    is_over = False

    def on_batch(self, events, network):
        # Events clear the timer.
        network.wake_at(network.now())
        return super().on_batch(events, network)

    def on_wake(self, network):
        """One attempt per call, so that the log's limit holds none back."""
        if not ATTEMPTS:
            if not self.is_over:
                network.info(f"{MARK}s are over")
            self.is_over = True
            return
        name, function = ATTEMPTS.pop(0)
        try:
            result = "GOT" if function() else "REFUSED nothing"
        except (OSError, PermissionError) as error:
            result = f"REFUSED {errno.errorcode.get(error.errno, error)}"
        except BaseException as error:
            result = f"REFUSED {type(error).__name__}"
        network.info(f"{MARK}: {name}: {result}")
        network.wake_at(network.now() + 0.02)

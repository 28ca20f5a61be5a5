"""Makes child processes end with their parent. As a program: a process that starts a server for its parent, ends the
server when the parent has ended, and removes the server's directory.

The parent holds the other end of this process's standard input, which closes with the parent, even at SIGKILL. If this
process is killed, the kernel ends the server: PR_SET_PDEATHSIG. Imports nothing of the project, to start fast.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
STOP_TIMEOUT_S = 5


def die_with_parent(parent: int, sig: int = signal.SIGKILL) -> Callable[[], None]:
    """A function for a child to call between fork and exec: the kernel sends it the signal when the parent ends."""

    def request_signal() -> None:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, sig)
        if os.getppid() != parent:  # it ended before the request
            os.kill(os.getpid(), sig)

    return request_signal


def main() -> int:
    directory, *command = sys.argv[1:]
    # Ctrl-C goes to the whole foreground group: what it means is for the parent to decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent(os.getpid()),  # noqa: PLW1509 - this process has one thread
        start_new_session=True,
    )
    signal.signal(signal.SIGCHLD, lambda *_: os._exit(server.wait()) if server.poll() is not None else None)
    print(server.pid, flush=True)
    sys.stdin.buffer.read()  # until the parent closes it or ends
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    server.terminate()
    try:
        server.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

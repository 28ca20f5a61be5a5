"""Keeps one server for a parent process: ends it and removes its directory when the parent is gone, however it went.

Runs as a process of its own between the two. The parent's end of our standard input closes with the parent, even
at SIGKILL; the server in turn is bound to us by PR_SET_PDEATHSIG. Imports nothing of ours, to start fast.
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
    """For the child, between fork and exec: ask the kernel for a signal when the parent ends."""

    def ask() -> None:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, sig)
        if os.getppid() != parent:  # it ended before we asked
            os.kill(os.getpid(), sig)

    return ask


def main() -> int:
    directory, *command = sys.argv[1:]
    # Ctrl-C goes to the whole foreground group: the parent decides what it means, not we.
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

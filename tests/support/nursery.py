"""Has imported what the programs need and forks one process for each that it is asked for (see commands.py)."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import sys
import traceback

import services.cli
from services._kit.kube.client_core import client_core
from services.cli.supervision.preloading import preload

LONGEST_REQUEST = 1 << 20


def _import_all() -> None:
    """Programs import what they need when they know what to do; here all of it is there before."""
    for module in pkgutil.walk_packages(services.cli.__path__, "services.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    client_core()
    preload()
    # One command, so that what the parser of arguments imports is there, too.
    sys.argv = ["-c", "topology"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        importlib.import_module("services.cli.fleetlog").main()


def _program(arguments: list[str], environment: dict[str, str]) -> int:
    """Become what Python runs with these arguments: -c TEXT or -m MODULE; its exit code."""
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    kind, what, *words = arguments
    sys.argv = [kind, *words]
    try:
        if kind == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})  # noqa: S102 - as the interpreter would
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
            return 1
        return end.code or 0
    except KeyboardInterrupt:
        traceback.print_exc()
        return 128 + signal.SIGINT
    except BaseException:  # noqa: BLE001 - the interpreter would do the same
        traceback.print_exc()
        return 1
    return 0


def _leave(code: int) -> None:
    """End without what belongs to the parent."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code & 0xFF)


def _attend(asking: socket.socket) -> None:
    """Take one request with three files; start the program, tell its process id, wait for its end, tell the code."""
    data, descriptors, _, _ = socket.recv_fds(asking, LONGEST_REQUEST, 3)
    if not data:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    arguments, environment, session = json.loads(data)
    pid = os.fork()
    if pid == 0:
        asking.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        for descriptor in descriptors:
            if descriptor > 2:
                os.close(descriptor)
        if session:
            os.setsid()
        _leave(_program(arguments, environment))
    for descriptor in (0, 1, 2, *descriptors):
        os.close(descriptor)
    asking.send(json.dumps(pid).encode())
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        asking.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def serve(descriptor: int) -> None:
    """Serve a listening socket until standard input ends: a connection for each program."""
    listening = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    gc.collect()
    gc.freeze()
    # Those that attend to programs are nobody's business once they have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    owner = sys.stdin.fileno()
    while True:
        readable, _, _ = select.select([listening, owner], [], [])
        if owner in readable:
            return
        asking, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            try:
                _attend(asking)
            finally:
                os._exit(0)
        asking.close()

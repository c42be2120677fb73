"""Has imported what the commands need and forks one process per command it is asked for (see commands.py)."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import signal
import socket
import sys
import traceback

import services.cli
from services._kit.kube.client_core import client_core

# Commands import what they need when they know what to do; here all of it is there before.
for _module in pkgutil.walk_packages(services.cli.__path__, "services.cli."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)
client_core()

_LONGEST_REQUEST = 1 << 20


def _command(module: str, arguments: list[str], environment: dict[str, str], descriptors: list[int]) -> int:
    """Become the command; its exit code."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    sys.argv = ["-c", *arguments]
    try:
        importlib.import_module(f"services.cli.{module}").main()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
            return 1
        return end.code or 0
    except BaseException:  # noqa: BLE001 - the interpreter would do the same
        traceback.print_exc()
        return 1
    return 0


def _leave(code: int) -> None:
    """End without what belongs to the parent."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _warm_up() -> None:
    """Run one command, so that what the parser of arguments imports is there, too."""
    sys.argv = ["-c", "topology"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        importlib.import_module("services.cli.fleetlog").main()


def serve(descriptor: int) -> None:
    """Serve a socket until its other end is closed: a request with three files, the process's id, its exit code."""
    requests = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _warm_up()
    gc.collect()
    gc.freeze()
    requests.send(b"0")
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 3)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            requests.close()
            _leave(_command(*json.loads(data), descriptors))
        for given in descriptors:
            os.close(given)
        requests.send(json.dumps(pid).encode())
        _, status = os.waitpid(pid, 0)
        requests.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())

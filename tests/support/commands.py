"""Runs `fleetlog` and `karmadactl` in processes of their own, forked by the server of multiprocessing.

That server has imported the commands: an interpreter that imports everything itself takes ten times as long as what
most commands do. That a bare start finds what it needs, and loads no more, is the matter of
tests/unit/cli/test_cli_commands.py.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pkgutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path

import services.cli

PATIENCE = 90.0
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    [
        module.name
        for module in pkgutil.walk_packages(services.cli.__path__, "services.cli.")
        if not module.name.endswith("__main__")
    ]
)
# A start looks after all that have ended; two threads must not read one exit code.
_taking_codes = threading.Lock()


def run_command(
    module: str, *arguments: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `fleetlog` or `karmadactl` with these variables and no others of its own, in a directory.

    Raises TimeoutExpired after it was killed for taking too long.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLEETLOG_", "KUBECONFIG"))}
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        streams = (os.devnull, out.name, err.name)
        place = cwd or Path.cwd()
        process = _FORKING.Process(target=_become, args=(module, arguments, {**kept, **variables}, streams, place))
        with _taking_codes:
            process.start()
        ended = wait([process.sentinel], PATIENCE)
        if not ended:
            process.kill()
        with _taking_codes:
            process.join()
        if not ended:
            raise subprocess.TimeoutExpired(arguments, PATIENCE, out.read(), err.read())
        assert process.exitcode is not None
        return subprocess.CompletedProcess(arguments, process.exitcode, out.read().decode(), err.read().decode())


def _become(
    module: str, arguments: Sequence[str], variables: Mapping[str, str], streams: Sequence[str], place: Path
) -> None:
    """Be the command in a directory, with these variables and no others, and these files as its streams."""
    os.chdir(place)
    for number, file in enumerate(streams):
        descriptor = os.open(file, os.O_RDWR)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [module, *arguments]
    importlib.import_module(f"services.cli.{module}").main()

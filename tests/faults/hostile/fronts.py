"""Starts the process of the fronts and gives it orders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

import msgspec

from tests.faults.hostile.front import Order, Plan, Ready

_PATIENCE: Final = 30.0


class Fronts:
    """Fronts before processes of an installation, in a process of their own."""

    def __init__(self, directory: Path, installation: Path, names: tuple[str, ...]) -> None:
        """`installation` is the file with the ports of what is behind; it is read when somebody connects."""
        self._directory = directory
        self._plan = Plan(str(directory), str(installation), names)
        self._process: subprocess.Popen[str] | None = None
        self._ready = Ready(0, {})

    @property
    def ca(self) -> Path:
        """Certificate of their authority."""
        return self._directory / "ca.crt"

    @property
    def urls(self) -> dict[str, str]:
        """Addresses by name."""
        return {name: f"https://127.0.0.1:{port}" for name, port in self._ready.ports.items()}

    def start(self) -> None:
        """Start the process and wait until it listens."""
        self._directory.mkdir(parents=True, exist_ok=True)
        plan = self._directory / "plan.json"
        plan.write_bytes(msgspec.json.encode(self._plan))
        with (self._directory / "fronts.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.hostile.front", str(plan)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=dict(os.environ),
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self._ready = msgspec.json.decode(self._process.stdout.readline(), type=Ready)

    def order(self, name: str, order: Order) -> None:
        """Have a front behave from now on."""
        body = msgspec.json.encode(order)
        with urlopen(Request(f"http://127.0.0.1:{self._ready.admin}/{name}", body), timeout=_PATIENCE) as answer:
            answer.read()

    def sane(self) -> None:
        """Every front passes everything on again."""
        for name in self._ready.ports:
            self.order(name, Order())

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

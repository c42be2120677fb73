"""Reads the shell commands of a page and types them into one shell, as a newcomer would."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
READING: Final = ("kubectl get", "karmadactl get", "fleetlog explain", "fleetlog history")
"""Beginnings of commands that a person repeats until they show something."""
REPEATS: Final = 60
_SHELL: Final = """
again() {
  for attempt in $(seq "$REPEATS"); do eval "$1" && return 0; sleep 1; done
  return 1
}
typed() {
  echo "+ $2"
  "$1" "$2" || { code=$?; echo "exit code $code: $2" >&2; exit "$code"; }
}
"""


def commands_of(page: str) -> list[str]:
    """The commands of all shell blocks, in order, each with the lines it continues on and its here-document."""
    commands = []
    for block in _BLOCK.findall(page):
        lines = iter(block.replace("\\\n", " ").splitlines())
        for line in lines:
            command = line.removeprefix("$ ").strip()
            if command.endswith("<<'EOF'"):
                command = "\n".join([command, *takewhile(lambda text: text != "EOF", lines), "EOF"])
            if command and not command.startswith("#"):
                commands.append(command)
    return commands


def type_in(commands: list[str], directory: Path, environment: Mapping[str, str], seconds: float) -> str:
    """Run commands in one shell, the next only after the former ended with 0; what it printed.

    Raises AssertionError with all of that for the first that fails.
    """
    typed = [f"typed {'again' if line.startswith(READING) else 'eval'} {shlex.quote(line)}" for line in commands]
    done = subprocess.run(
        ["bash", "-c", "\n".join([f"REPEATS={REPEATS}", _SHELL, *typed])],
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout

"""Finds kubectl programs to test with: the one on PATH, and the old one Debian ships."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

_MINOR: Final = 31
"""At most one release away from all servers that tests start."""
_RELEASE: Final = re.compile(r"kubectl\.1\.(\d+)")


def put_one_release_on_path() -> None:
    """Where kubectl on PATH only chooses between releases beside it, put one of them before it.

    The choice takes two more processes and a request for each command.
    """
    found = Path(shutil.which("kubectl") or "").resolve()
    if _RELEASE.fullmatch(found.name):
        return
    releases = {
        int(match[1]): file for file in found.parent.glob("kubectl.1.*") if (match := _RELEASE.fullmatch(file.name))
    }
    if not releases:
        return
    nearest = releases[min(releases, key=lambda minor: abs(minor - _MINOR))]
    directory = Path(tempfile.gettempdir()) / f"fleetlog-tests-{nearest.name}-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    # Several processes do it at the same time.
    with suppress(FileExistsError):
        (directory / "kubectl").symlink_to(nearest)
    os.environ["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"


@functools.cache
def current_kubectl() -> str:
    """The kubectl on PATH, else Debian's; empty when there is none."""
    return shutil.which("kubectl") or debian_kubectl()


@functools.cache
def debian_kubectl() -> str:
    """Debian's kubectl, fetched once per machine and user; empty where the package cannot be had."""
    directory = Path(tempfile.gettempdir()) / f"fleetlog-tests-kubectl-{os.getuid()}"
    program = directory / "usr/bin/kubectl"
    if program.exists():
        return str(program)
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return ""
    with tempfile.TemporaryDirectory(prefix="fleetlog-kubectl-", dir=tempfile.gettempdir()) as scratch:
        try:
            fetched = subprocess.run(
                ["apt-get", "download", "kubernetes-client"], cwd=scratch, capture_output=True, timeout=120, check=False
            )
        except subprocess.TimeoutExpired:
            return ""
        packages = list(Path(scratch).glob("kubernetes-client_*.deb"))
        if fetched.returncode != 0 or not packages:
            return ""
        tree = Path(scratch) / "tree"
        unpacked = subprocess.run(
            ["dpkg", "-x", str(packages[0]), str(tree)], capture_output=True, timeout=60, check=False
        )
        if unpacked.returncode != 0:
            return ""
        # All at once: tests that run side by side fetch it at the same time, and the first one wins.
        with suppress(OSError):
            tree.rename(directory)
        return str(program) if program.exists() else ""

"""Finds kubectl programs to test with: the one on PATH, and the old one Debian ships."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path


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

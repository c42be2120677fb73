"""Runs commands as a user types them: in the directory of an installation, with the commands of this working copy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.e2e.fleet import Failed

COMMANDS: Final = Path(sys.executable).parent


def environment(kubeconfig: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a user's shell has: ours, the kubeconfig, and the commands found first."""
    path = f"{COMMANDS}:{os.environ['PATH']}"
    return {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path, **(variables or {})}


def run(script: str, directory: Path, variables: Mapping[str, str], seconds: float) -> str:
    """What commands print; raises Failed at the first that fails, with all that was said."""
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        cwd=directory,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    if done.returncode:
        raise Failed(f"{script}: {done.stderr}{done.stdout}")
    return done.stdout

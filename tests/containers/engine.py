"""The container engine of this machine: whether it can be used, and which images it has."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

from k8s.images import NATS_IMAGE
from k8s.shared import IMAGE, ROOT
from tests.natsserver import engine_answers

PYTHON_IMAGE: Final = "python:3.13-slim-trixie"
"""The base of the Dockerfile, by the default of its build argument."""
BASES: Final = (PYTHON_IMAGE, NATS_IMAGE)
"""What has to be there to build the image and start the composition."""
NATS_POD_IMAGE: Final = f"{NATS_IMAGE}-alpine"
"""The log's server in pods, by the manifests of k8s/base."""
KEPT: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fleetlog-containers"
"""Where `python -m tests.containers.prepare` keeps what it fetched."""
TITLE: Final = "org.opencontainers.image.title=fleetlog"
"""The label of every image that the Dockerfile builds."""
PREPARE: Final = "`python -m tests.containers.prepare` makes what is missing"


def docker(*words: str, seconds: float = 600.0, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """One command of the engine's client; raises CalledProcessError with what it said."""
    done = subprocess.run(
        ["docker", *words], capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT, **options
    )
    if check and done.returncode:
        raise RuntimeError(f"docker {' '.join(words)}: {done.stderr or done.stdout}")
    return done


def take_plugins() -> None:
    """Let the client find the plugins that were fetched for it, where it has none of its own."""
    if (KEPT / "cli-plugins").is_dir() and _compose_version() < 2:
        os.environ["DOCKER_CONFIG"] = str(KEPT)


def _compose_version() -> int:
    try:
        done = docker("compose", "version", "--short", check=False, seconds=30)
    except OSError:
        return 0
    first = done.stdout.strip().removeprefix("v").partition(".")[0]
    return int(first) if done.returncode == 0 and first.isdigit() else 0


def has_image(name: str) -> bool:
    """Whether the engine has an image; nothing is fetched."""
    return docker("image", "inspect", name, check=False).returncode == 0


@cache
def why_not() -> str:
    """Why containers cannot be started here; empty where they can."""
    if not engine_answers():
        return "no container engine answers here"
    take_plugins()
    if _compose_version() < 2:
        return f"the engine has no `docker compose`; {PREPARE}"
    missing = [name for name in BASES if not has_image(name)]
    return f"the engine has no image {', '.join(missing)}: pull it, or {PREPARE}" if missing else ""


def build(tag: str = IMAGE, context: Path = ROOT, dockerfile: Path = ROOT / "Dockerfile", **arguments: str) -> None:
    """Build the image of the services from a working copy, without asking a registry for its base."""
    given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    docker("build", "-q", "-t", tag, *given, "-f", str(dockerfile), str(context), seconds=900)


def megabytes(image: str) -> float:
    """Size of an image."""
    return int(docker("image", "inspect", "-f", "{{.Size}}", image).stdout) / 1e6

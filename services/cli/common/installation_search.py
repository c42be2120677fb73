"""Finds the installation that a command means: named by KUBECONFIG, else the nearest `.fleetlog` upwards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

DEFAULT_DIRECTORY: Final = Path(".fleetlog")
DIRECTORY_VARIABLE: Final = "FLEETLOG_DIR"
KUBECONFIG_VARIABLE: Final = "KUBECONFIG"


def find_directory() -> Path:
    """Directory of the installation where no option and no FLEETLOG_DIR names it.

    That of a kubeconfig in KUBECONFIG, else the nearest `.fleetlog` in the current directory and those above it; where
    there is none, the `.fleetlog` that does not exist yet.
    """
    from services.cli.common.layout import Layout

    for path in kubeconfigs_named():
        if Layout(path.parent).state.is_file():
            return path.parent
    return next((place for place in candidates() if place.is_dir()), DEFAULT_DIRECTORY)


def find_kubeconfig() -> tuple[Path | None, str]:
    """The kubeconfig of the control plane where no option names it, if there is one, and what was looked at.

    KUBECONFIG decides alone, as for kubectl; else that of FLEETLOG_DIR, ~/.kube/config, and of the nearest `.fleetlog`.
    """
    from services.cli.common.layout import CONTROL, Layout

    named = kubeconfigs_named()
    if named:
        return _first_file(named), ", ".join(map(str, named))
    directory = os.environ.get(DIRECTORY_VARIABLE, "")
    usual = [Layout(Path(directory)).kubeconfig(CONTROL)] if directory else []
    usual.append(Path("~/.kube/config").expanduser())
    nearest = DEFAULT_DIRECTORY / f"{CONTROL}.kubeconfig"
    found = _first_file([*usual, *(place / nearest.name for place in candidates())])
    return found, f"{', '.join(map(str, usual))}, {nearest} in {Path.cwd()} and the directories above it"


def _first_file(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def kubeconfigs_named() -> list[Path]:
    """The files that KUBECONFIG names."""
    return [Path(item).expanduser() for item in os.environ.get(KUBECONFIG_VARIABLE, "").split(os.pathsep) if item]


def candidates() -> Iterator[Path]:
    """Where `.fleetlog` is looked for: the current directory, then those above it; nearest first.

    Above the current directory those of other users are left out: everybody may make one in /tmp.
    """
    here = Path.cwd()
    yield here / DEFAULT_DIRECTORY
    for parent in here.parents:
        place = parent / DEFAULT_DIRECTORY
        try:
            theirs = place.exists() and place.stat().st_uid != os.getuid()
        except OSError:
            continue
        if not theirs:
            yield place


def absence(directory: Path) -> str:
    """That there is no installation in a directory; where it was the last resort, everything that was looked at."""
    if directory.resolve() != DEFAULT_DIRECTORY.resolve() or directory.exists():
        return f"no installation in {directory}"
    named = os.environ.get(KUBECONFIG_VARIABLE, "")
    kubeconfig = f"KUBECONFIG ({named}) is not in the directory of one" if named else "KUBECONFIG is not set"
    return f"no installation found: {kubeconfig}, and there is no .fleetlog in {Path.cwd()} or a directory above it"

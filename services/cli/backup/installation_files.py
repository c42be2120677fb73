"""The files of an installation that a backup takes along: identities, certificates, kubeconfigs and master keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from services.cli.common.layout import Layout
from services.cli.common.running import Failed
from services.cli.log.archive import StoredFile

_TOP: Final = ("installation.json", "*.kubeconfig")
_LEFT_OUT: Final = frozenset({"nats"})
"""Directories of `data` that hold no files of ours: the store of the log's server, which is backed up by messages."""
_LARGEST: Final = 4 << 20


def files(layout: Layout) -> Iterator[StoredFile]:
    """Every file that a restored installation needs; raises Failed for one that is far too large to be one."""
    root = layout.directory
    found = [path for pattern in _TOP for path in sorted(root.glob(pattern))]
    found += [
        path
        for path in sorted((root / "data").rglob("*"))
        if path.relative_to(root / "data").parts[0] not in _LEFT_OUT and not path.name.endswith(".new")
    ]
    for path in found:
        if not path.is_file() or path.is_symlink():
            continue
        if path.stat().st_size > _LARGEST:
            raise Failed(f"{path} is larger than {_LARGEST} bytes; it is no file of an installation, move it away")
        yield StoredFile(path=path.relative_to(root).as_posix(), data=path.read_bytes())


def write(directory: Path, item: StoredFile) -> None:
    """Write a file of a backup below a directory, readable by its owner only; raises Failed for a path elsewhere."""
    path = PurePosixPath(item.path)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise Failed(f"the backup names a file outside of the installation: {item.path}")
    place = directory.joinpath(*path.parts)
    place.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(item.data)

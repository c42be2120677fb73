"""Files of a Secret as a kubelet mounts them: links to `..data`, which is exchanged for a link to the next version."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


class Mounted:
    """A directory with the files of a Secret."""

    def __init__(self, directory: Path, files: Mapping[str, bytes]) -> None:
        self.directory = directory
        self._version = 0
        self._files: dict[str, bytes] = {}
        directory.mkdir(parents=True)
        self.write(files)

    def write(self, files: Mapping[str, bytes]) -> None:
        """Exchange what is there for a version in which these files are others."""
        self._version += 1
        self._files |= files
        version = self.directory / f"..version_{self._version}"
        version.mkdir()
        for name, data in self._files.items():
            (version / name).write_bytes(data)
        link = self.directory / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.directory / "..data")
        for name in self._files:
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(f"..data/{name}")

    def age(self, seconds: float) -> None:
        """Let everything be so many seconds older."""
        for path in [self.directory, *self.directory.rglob("*")]:
            status = path.lstat()
            os.utime(path, (status.st_atime - seconds, status.st_mtime - seconds), follow_symlinks=False)

"""Packages of one release of Debian, whatever release this machine runs: unpacked, never installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

KEYS: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR: Final = "http://deb.debian.org/debian"
SUITE: Final = "trixie"
"""The release that the official image of Python is made from."""
_APT: Final = """Dir::Etc::sourcelist "{0}/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "{0}/state";
Dir::State::status "{0}/state/status";
Dir::Cache "{0}/cache";
APT::Sandbox::User "root";
"""


class Debian:
    """A release, with a directory of its own below `place`."""

    def __init__(self, place: Path, suite: str = SUITE) -> None:
        self._place = place / suite
        for part in ("state/lists/partial", "cache/archives/partial"):
            (self._place / part).mkdir(parents=True)
        (self._place / "state/status").touch()
        lines = (f"{kind} [signed-by={KEYS}] {MIRROR} {suite} main\n" for kind in ("deb", "deb-src"))
        (self._place / "sources.list").write_text("".join(lines))
        (self._place / "apt.conf").write_text(_APT.format(self._place))
        self._updated = False

    def unpacked(self, package: str, into: str = "") -> Path:
        """A package's files, in a directory named like it or like `into`."""
        self._apt("download", package)
        (file,) = self._place.glob(f"{package}_*.deb")
        target = self._place / (into or package)
        subprocess.run(["dpkg-deb", "-x", str(file), str(target)], check=True)
        return target

    def source(self, package: str, target: Path) -> None:
        """Put the sources that a package was made from into a directory, without the patches of Debian."""
        self._apt("source", "--download-only", package)
        (file,) = self._place.glob(f"{package}_*.orig.tar.*")
        subprocess.run(["tar", "-x", "--strip-components=1", "-f", str(file), "-C", str(target)], check=True)

    def _apt(self, *words: str) -> None:
        told = {**os.environ, "APT_CONFIG": str(self._place / "apt.conf")}
        if not self._updated:
            subprocess.run(["apt-get", "update", "-qq"], env=told, check=True)
            self._updated = True
        subprocess.run(["apt-get", "-qq", *words], env=told, cwd=self._place, check=True)

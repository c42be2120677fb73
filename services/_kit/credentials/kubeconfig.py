"""Opens the endpoint of a kubeconfig, and again when one of its files changes or the endpoint refuses its identity."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import yaml
from yaml import YAMLError

from schemas.agent import Expiry
from schemas.manifest import Manifest
from services._kit.credentials.expiry import certificate_expiry, token_expiry
from services._kit.credentials.renewing import RenewingClient
from services._kit.kube.client import KubeClient, WatchEvent

Stamp = tuple[tuple[str, int, int, int], ...]

LOOK_SECONDS: Final = 2.0
"""How often the files are compared, at most; it happens with a request."""
_NAMING: Final = ("client-certificate", "client-key", "certificate-authority", "tokenFile")


class _FileClient(RenewingClient):
    """A client that compares its files before it sends something."""

    def __init__(self, first: KubeClient, path: str | Path, connections: int) -> None:
        super().__init__(first, self._load)
        self._path = Path(path).expanduser()
        self._limit = connections
        self._files = _files(self._path)
        self._stamp = _stamp(self._files)
        self._looked_at = time.monotonic()

    async def _load(self) -> KubeClient:
        files = _files(self._path)
        stamp = _stamp(files)
        try:
            client = await KubeClient.from_kubeconfig(self._path, connections=self._limit)
        except (OSError, ValueError):
            raise
        except Exception as error:
            # The loader raises unrelated exception types for a file that is being written.
            raise ValueError(f"kubeconfig {self._path} cannot be read: {error}") from error
        self._files, self._stamp = files, stamp
        return client

    async def _compare(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        if _stamp(self._files) != self._stamp:
            await self.renew()

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        """Send one request with what the files hold."""
        await self._compare()
        return await super().request(method, path, **options)

    async def watch(self, path: str, resource_version: str, **options: Any) -> AsyncIterator[list[WatchEvent]]:
        """Stream changes with what the files hold."""
        await self._compare()
        async for events in super().watch(path, resource_version, **options):
            yield events


async def open_kubeconfig(path: str | Path, *, connections: int = 64) -> RenewingClient:
    """A client of the current context of a kubeconfig that stays up to date with its files.

    Raises what KubeClient.from_kubeconfig raises when the files cannot be used now.
    """
    first = await KubeClient.from_kubeconfig(path, connections=connections)
    return _FileClient(first, path, connections)


def kubeconfig_expiry(path: str | Path) -> Expiry | None:
    """Expiry of the credentials of a kubeconfig's current context; None where they, or the file, carry none."""
    file = Path(path).expanduser()
    try:
        user = _current(_read(file), "user")
        token = user.get("token") or _content(file, user.get("tokenFile"))
        if token:
            return token_expiry(str(token).strip(), f"the token in {file}")
        data = user.get("client-certificate-data")
        certificate = base64.b64decode(data).decode() if data else _content(file, user.get("client-certificate"))
        return certificate_expiry(certificate, f"the client certificate in {file}") if certificate else None
    except (OSError, ValueError, YAMLError, AttributeError, TypeError):
        return None


def _files(path: Path) -> list[Path]:
    """A kubeconfig and the files it names, as far as it can be read."""
    try:
        document = _read(path)
        users = [entry.get("user") or {} for entry in document.get("users") or ()]
        clusters = [entry.get("cluster") or {} for entry in document.get("clusters") or ()]
        parts = [*users, *clusters]
        return [path, *(path.parent / str(part[name]) for part in parts for name in _NAMING if part.get(name))]
    except (OSError, ValueError, YAMLError, AttributeError, TypeError):
        return [path]


def _stamp(files: list[Path]) -> Stamp:
    """Identifies a version of the files."""
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            found.append((str(file), 0, 0, 0))
        else:
            found.append((str(file), status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def _read(path: Path) -> Manifest:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text(encoding="utf-8"), loader) or {}


def _current(document: Manifest, part: str) -> Manifest:
    """The user or cluster of the current context."""
    contexts = {entry["name"]: entry.get("context") or {} for entry in document.get("contexts") or ()}
    name = contexts.get(document.get("current-context", ""), {}).get(part)
    found = {entry["name"]: entry.get(part) or {} for entry in document.get(f"{part}s") or ()}
    return found.get(name, {})


def _content(file: Path, name: Any) -> str:
    return (file.parent / str(name)).read_text(encoding="utf-8") if name else ""

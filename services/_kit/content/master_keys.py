"""The installation's master keys: a file, or a Kubernetes Secret mounted as one, that wraps the namespaces' keys."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from services._kit.base.private_files import private_text
from services._kit.base.settings import Settings, SettingsError

KEY_BYTES: Final = 32


class KeyedSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the few services that read Secrets."""

    secrets_key_file: str = ""
    """File with the master keys; empty: no Secret is stored or delivered."""


class _File(Struct, kw_only=True, forbid_unknown_fields=True):
    current: str
    keys: dict[str, bytes]


class MasterKeys:
    """Master keys by id; `current` wraps what is new, the others only unwrap."""

    def __init__(self, current: str, keys: dict[str, bytes]) -> None:
        if current not in keys:
            known = ", ".join(keys) or "none"
            raise SettingsError(f"the current master key {current!r} is not among the keys: {known}")
        for name, key in keys.items():
            if len(key) != KEY_BYTES:
                raise SettingsError(f"master key {name!r} has {len(key)} bytes, {KEY_BYTES} are needed")
        self.current = current
        self._keys = keys

    def __repr__(self) -> str:
        return f"MasterKeys({', '.join(self._keys)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Ids of the keys."""
        return tuple(self._keys)

    def get(self, name: str) -> bytes | None:
        """A key by its id."""
        return self._keys.get(name)

    def rotated(self) -> MasterKeys:
        """These keys and a new current one."""
        name, key = _new_key(self._keys)
        return MasterKeys(name, {**self._keys, name: key})

    def only_current(self) -> MasterKeys:
        """The current key alone: what the others wrapped cannot be read any more."""
        return MasterKeys(self.current, {self.current: self._keys[self.current]})

    def save(self, path: Path) -> None:
        """Write the file atomically, readable by its owner only."""
        data = msgspec.json.format(msgspec.json.encode(_File(current=self.current, keys=self._keys)), indent=2)
        private_text(path, data.decode())


def new_master_keys() -> MasterKeys:
    """A first master key."""
    name, key = _new_key({})
    return MasterKeys(name, {name: key})


def load_master_keys(path: Path) -> MasterKeys:
    """The keys of a file; raises SettingsError when it cannot be read."""
    try:
        read = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise SettingsError(f"FLEETLOG_SECRETS_KEY_FILE: {path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError:
        # The decoder's own words could quote the file.
        raise SettingsError(
            f'FLEETLOG_SECRETS_KEY_FILE: {path} is not {{"current": ID, "keys": {{ID: 32 bytes in base64}}}}'
        ) from None
    return MasterKeys(read.current, read.keys)


def _new_key(known: dict[str, bytes]) -> tuple[str, bytes]:
    name = base = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    number = 1
    while name in known:
        number += 1
        name = f"{base}-{number}"
    return name, secrets.token_bytes(KEY_BYTES)

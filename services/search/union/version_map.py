"""The resourceVersion of a view over several clusters: the version of each, as one text for clients."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

import msgspec

ZERO: Final = "0"
"""The version that means: whatever is at hand."""
LONGEST: Final = 512 << 10
"""Characters of a version that are read; a longer one counts as none."""
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]+")
_versions: Final = msgspec.json.Decoder(dict[str, str])
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class VersionMap(msgspec.Struct, frozen=True):
    """The resourceVersion of every cluster; with `zero` that of each is "0"."""

    clusters: Mapping[str, str] = {}
    zero: bool = False

    def of(self, cluster: str) -> str:
        """The version of one cluster; empty where it has none."""
        return ZERO if self.zero else self.clusters.get(cluster, "")

    @property
    def empty(self) -> bool:
        """Whether it names no version at all."""
        return not self.zero and not self.clusters

    def text(self) -> str:
        """As clients get it: opaque, and usable in a URL."""
        if self.zero:
            return ZERO
        return packed(_encode(self.clusters)) if self.clusters else ""


def read_version(text: str) -> VersionMap:
    """What a client's resourceVersion says; one that is not from here counts as none."""
    if text == ZERO:
        return VersionMap(zero=True)
    raw = unpacked(text)
    if raw is None:
        return VersionMap()
    try:
        return VersionMap(_versions.decode(raw))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return VersionMap()


def packed(raw: bytes) -> str:
    """Bytes as text that needs no escapes in a URL."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unpacked(text: str) -> bytes | None:
    """The bytes of such a text; None for any other."""
    if len(text) > LONGEST or _ALPHABET.fullmatch(text) is None:
        return None
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None

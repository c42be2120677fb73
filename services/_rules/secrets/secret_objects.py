"""Identifies secret objects and names their manifests on the log by keyed digests."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

SEALED: Final = "sealed-"
"""Beginning of the names of encrypted manifests."""
WITHHELD: Final = "the reason is withheld because it may quote the Secret; check the override policies that match it"


def is_secret(api_version: str, kind: str) -> bool:
    """Whether the content of a kind stays encrypted and is never shown."""
    return kind == "Secret" and api_version == "v1"


def is_secret_resource(group: str, resource: str) -> bool:
    """The same, asked by the name a kind has in URLs."""
    return resource == "secrets" and not group


def is_sealed(digest: str) -> bool:
    """Whether a digest names an encrypted manifest."""
    return digest.startswith(SEALED)


class DigestKey:
    """Names the secret manifests of one namespace: equal bytes get equal names, which need the key to guess."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "DigestKey(…)"

    def digest(self, data: bytes) -> str:
        """The name of a secret manifest: HMAC-SHA-256 of its bytes."""
        return SEALED + hmac.digest(self._key, data, hashlib.sha256).hex()

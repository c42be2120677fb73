"""Key pairs of NATS (nkeys) by their seeds: new ones, those in files, and what of them is public."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from services.cli.common.running import Failed


def new_seed(kind: str) -> str:
    """A fresh seed of an operator (`SO…`), account (`SA…`) or user (`SU…`)."""
    import nkeys

    prefix = {
        "operator": nkeys.PREFIX_BYTE_OPERATOR,
        "account": nkeys.PREFIX_BYTE_ACCOUNT,
        "user": nkeys.PREFIX_BYTE_USER,
    }[kind]
    return bytes(nkeys.encode_seed(secrets.token_bytes(32), prefix)).decode()


def key_of(seed: str) -> Any:
    """The key pair of a seed; raises Failed for what is none."""
    import nkeys

    try:
        return nkeys.from_seed(bytearray(seed.strip().encode()))
    except (nkeys.NkeysError, ValueError) as error:
        raise Failed(f"a seed of NATS cannot be read: {error or type(error).__name__}") from None


def new_key(kind: str) -> Any:
    """A fresh key pair."""
    return key_of(new_seed(kind))


def read_key(path: Path) -> Any:
    """The key pair whose seed is in a file; raises Failed."""
    try:
        return key_of(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Failed(f"{path}: {error.strerror or error}") from None


def public_key(seed: str) -> str:
    """The public key (of a user `U…`) of a seed; raises Failed for what is none."""
    return bytes(key_of(seed).public_key).decode()

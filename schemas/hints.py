"""Messages that are not stored: hints between services that may be lost without harm."""

from __future__ import annotations

from msgspec import Struct

from schemas.keys import ObjectKey, PolicyKey


class Gone(Struct, frozen=True, array_like=True):
    """An object, and the position in FACTS up to which everything about it is gone."""

    key: ObjectKey
    position: int


class Purged(Struct, frozen=True, omit_defaults=True):
    """Facets the janitor removed from the log: a service that holds tombstones of them may forget them.

    A service that misses the message keeps them until its next start.
    """

    objects: tuple[Gone, ...] = ()
    policies: tuple[PolicyKey, ...] = ()
    clusters: tuple[str, ...] = ()

"""Messages that nobody stores: hints between services that may be lost without harm."""

from __future__ import annotations

from msgspec import Struct

from schemas.keys import ObjectKey, PolicyKey


class Purged(Struct, frozen=True, omit_defaults=True):
    """What the janitor removed from the log: whoever remembers tombstones of it may forget them.

    A service that does not hear it holds on to them until its next start.
    """

    objects: tuple[ObjectKey, ...] = ()
    policies: tuple[PolicyKey, ...] = ()
    clusters: tuple[str, ...] = ()

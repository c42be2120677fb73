"""Works of an agent and its reports, for two ConfigMaps."""

from __future__ import annotations

from typing import Any, Final

from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from tests.support import facts
from tests.support.facts import raw

A: Final = ObjectKey("", "configmaps", "default", "a")
B: Final = ObjectKey("", "configmaps", "default", "b")
_NAMED: Final = {"uid": "u", "api_version": "v1", "kind": "ConfigMap"}


def rendered(key: ObjectKey, digest: str = "d1", cluster: str = "m1", **fields: Any) -> WorkRendered:
    """What a cluster has to hold of a ConfigMap."""
    return facts.work(cluster, **{**_NAMED, "key": key, "digest": digest, "manifest": raw({"a": 1}), **fields})


def withdrawn(key: ObjectKey, cluster: str = "m1") -> WorkWithdrawn:
    """That it has to hold it no longer."""
    return facts.withdrawn(cluster, key=key, **_NAMED)


def seen(key: ObjectKey, digest: str = "d1", **fields: bool) -> WorkObserved:
    """What the agent reports of it."""
    return WorkObserved(cluster="m1", key=key, uid="u", digest=digest, **fields)

"""Permanent ids of policies, bindings and works and the uids they are shown with, drawn from what they belong to."""

from __future__ import annotations

from schemas.envelope import named_id
from schemas.keys import ObjectKey


def policy_id(uid: str) -> str:
    """Permanent id of a policy that was stored without one; `uid` is the policy's."""
    return named_id(f"policy/{uid}")


def binding_id(key: ObjectKey, uid: str) -> str:
    """Permanent id of the binding of a template; `uid` is the template's."""
    return named_id(f"binding/{key}/{uid}")


def work_id(cluster: str, key: ObjectKey, uid: str) -> str:
    """Permanent id of a work; `uid` is the template's."""
    return named_id(f"work/{cluster}/{key}/{uid}")


def binding_uid(key: ObjectKey, uid: str) -> str:
    """The metadata.uid that the projected binding of a template has; the same on every gateway."""
    return named_id(f"uid/binding/{key}/{uid}")


def work_uid(cluster: str, key: ObjectKey, uid: str) -> str:
    """The metadata.uid that a projected work has; the same on every gateway."""
    return named_id(f"uid/work/{cluster}/{key}/{uid}")

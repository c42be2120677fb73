"""What a write costs the ResourceQuotas of its namespace: each quota's next status, or why the write is refused.

Kubernetes compares with the status of a quota, not with its spec: what was never measured is not limited yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import ZERO
from services._rules.kubernetes.resource_quota import (
    Amounts,
    amounts,
    concerns,
    exceeded,
    tracked,
    unspecified,
    usage,
)


class Refused(Exception):
    """Why an object does not fit into a quota."""


class Charge(Struct, frozen=True):
    """A quota whose usage rises, and its status afterwards."""

    quota: Manifest
    status: Manifest


def charges(quotas: Iterable[Manifest], group: str, plural: str, new: Manifest, old: Manifest | None) -> list[Charge]:
    """The quotas that a creation, or an update of `old`, is charged to; raises Refused for one that has no room."""
    found: list[tuple[Manifest, Amounts, Amounts]] = []
    for quota in quotas:
        state = quota.get("status") or {}
        hard, used = amounts(state.get("hard")), amounts(state.get("used"))
        limited = tracked(hard, group, plural)
        if not limited or not concerns(quota, plural, new):
            continue
        name = quota["metadata"]["name"]
        if plural == "pods" and not group:
            missing = unspecified(new, limited)
            if missing:
                raise Refused(f"failed quota: {name}: {missing}")
        if any(one not in used for one in limited):
            raise Refused(f"status unknown for quota: {name}, resources: {','.join(limited)}")
        found.append((quota, hard, used))
    if not found:
        return []
    wanted = _rise(usage(group, plural, new), usage(group, plural, old) if old is not None else {})
    return [charge for quota, hard, used in found if (charge := _charge(quota, hard, used, wanted)) is not None]


def _rise(after: Amounts, before: Amounts) -> Amounts:
    """What an object takes more than before; raises Refused for amounts below zero."""
    negative = sorted(name for name, amount in after.items() if amount < ZERO)
    if negative:
        raise Refused(f"quota usage is negative for resource(s): {','.join(negative)}")
    more = {name: amount - before[name] if name in before else amount for name, amount in after.items()}
    return {name: amount for name, amount in more.items() if amount > ZERO}


def _charge(quota: Manifest, hard: Amounts, used: Amounts, wanted: Amounts) -> Charge | None:
    asked = {name: amount for name, amount in wanted.items() if name in hard}
    if not asked:
        return None
    text = exceeded(quota["metadata"]["name"], asked, used, hard)
    if text:
        raise Refused(text)
    state = quota.get("status") or {}
    after = {name: str(used[name] + amount) if name in used else str(amount) for name, amount in asked.items()}
    written = {**(state.get("used") or {}), **after}
    return Charge(quota, {**state, "used": {name: written[name] for name in sorted(written)}})


def measured(quota: Manifest, taken: Amounts) -> Manifest:
    """The status of a quota in whose namespace so much is taken, of every name that some object has a part in."""
    hard = dict((quota.get("spec") or {}).get("hard") or {})
    before = (quota.get("status") or {}).get("used") or {}
    known = {**before, **{name: str(amount) for name, amount in taken.items()}}
    used = {name: known[name] for name in sorted(hard) if name in known}
    status: Manifest = {"hard": hard} if hard else {}
    return {**status, "used": used} if used else status

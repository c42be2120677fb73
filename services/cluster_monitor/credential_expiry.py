"""Decides when the end of a member's credentials is reported, and with which condition."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from schemas.agent import Expiry
from schemas.manifest import Manifest
from services.cluster_monitor.readiness import Observed, condition, find_condition

EXPIRING: Final = "CredentialsExpiring"
WARNING_SECONDS: Final = 7 * 86_400.0
"""How long before their end credentials are reported, at most."""
WARNING_SHARE: Final = 0.1
"""The same as a share of their whole life, for those that live shortly."""
_VALID: Final = Observed("False", "CredentialsValid", "the credentials of the cluster do not expire soon")


def warns_at(expiry: Expiry) -> float:
    """From when on the end of credentials is reported; seconds since 1970."""
    life = expiry.at - expiry.since if 0 < expiry.since < expiry.at else WARNING_SECONDS / WARNING_SHARE
    return expiry.at - min(WARNING_SECONDS, life * WARNING_SHARE)


def with_expiry(conditions: list[Manifest], expiry: Expiry | None, at: float) -> list[Manifest]:
    """The conditions of a cluster, with one about its credentials once these expire soon."""
    previous = find_condition(conditions, EXPIRING)
    if expiry is not None and at >= warns_at(expiry):
        end = _time(expiry.at)
        if at < expiry.at:
            wanted = Observed("True", "ExpiresSoon", f"{expiry.what} expires at {end}; renew it before")
        else:
            wanted = Observed("True", "Expired", f"{expiry.what} expired at {end}; renew it")
    elif previous is not None:
        wanted = _VALID
    else:
        return conditions
    fresh = condition(EXPIRING, wanted, previous, _time(at))
    if previous is None:
        return [*conditions, fresh]
    return [fresh if entry is previous else entry for entry in conditions]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

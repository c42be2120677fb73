"""Counts what is decided about requests of Fleetlog's services: which of their rights are used, which are missing."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

from services._rules.kubernetes.rbac.policy_rules import Access
from services._rules.kubernetes.rbac.service_roles import ACCOUNTS_GROUP, SERVICE_GROUP
from services.apiserver.auth.authorization import Authorizer, Decision, Rules
from services.apiserver.core.metrics import AUTHORIZATIONS
from services.apiserver.core.request_context import Identity

_MOST: Final = 2_000
_OURS: Final = frozenset({SERVICE_GROUP, ACCOUNTS_GROUP})
_REST: Final = ("other", "other", "other", "other")


class CountedDecisions:
    """Counts the decisions of another authorizer, unless it allows everything.

    Reviews ask that one directly: who asks whether a service may do something has not used the right. Services make up
    no names, but a kind is a name that users choose: after 2,000 series of one server all others are counted as one.
    """

    def __init__(self, inner: Authorizer) -> None:
        self._inner = inner
        self._series: dict[tuple[str, str, str, str, bool], Counter] = {}

    @property
    def allows_everything(self) -> bool:
        """Whether `decide` can be skipped."""
        return self._inner.allows_everything

    def decide(self, identity: Identity, access: Access) -> Decision:
        """What the other authorizer says."""
        decision = self._inner.decide(identity, access)
        if not _OURS.isdisjoint(identity.groups):
            self._count(identity.name, access, decision.allowed)
        return decision

    def rules(self, identity: Identity, namespace: str) -> Rules:
        """What the other authorizer says."""
        return self._inner.rules(identity, namespace)

    def _count(self, user: str, access: Access, allowed: bool) -> None:
        # A path holds groups and versions: its beginning says what is asked for.
        resource = f"/{access.path.strip('/').partition('/')[0]}" if access.path else access.kind_of_resource
        key = (user, access.verb, access.group, resource, allowed)
        series = self._series.get(key)
        if series is None:
            labels = key[:4] if len(self._series) < _MOST else _REST
            series = AUTHORIZATIONS.labels(*labels, "true" if allowed else "false")
            if labels is not _REST:
                self._series[key] = series
        series.inc()

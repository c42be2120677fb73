"""Authorizes by the roles and bindings in the store."""

from __future__ import annotations

from typing import Final

from services._rules.kubernetes.rbac.policy_rules import Access
from services._rules.kubernetes.rbac.role_index import GROUP, Place, RoleIndex
from services.apiserver.auth.authorization import Decision, Rules
from services.apiserver.core.request_context import Identity
from services.apiserver.store.store_port import Event, Key, Store

_KINDS: Final = {
    "roles": "Role",
    "clusterroles": "ClusterRole",
    "rolebindings": "RoleBinding",
    "clusterrolebindings": "ClusterRoleBinding",
}


class RoleAuthorizer:
    """Decides by roles and bindings; `start` takes in those that are stored and follows them from then on."""

    allows_everything = False

    def __init__(self, store: Store) -> None:
        self._store = store
        self.index = RoleIndex()

    def start(self) -> None:
        """Take in what is stored; the store is loaded."""
        for plural, kind in _KINDS.items():
            for entry in self._store.list(GROUP, plural):
                self.index.take(Place(kind, entry.key.namespace, entry.key.name), entry.look())
        self._store.listen(self._on_event, *((GROUP, plural) for plural in _KINDS))

    def _on_event(self, event: Event) -> None:
        key: Key = event.entry.key
        place = Place(_KINDS[key.resource], key.namespace, key.name)
        self.index.take(place, None if event.deleted else event.entry.look())

    def decide(self, identity: Identity, access: Access) -> Decision:
        """Whether a role allows it."""
        verdict = self.index.decide(identity, access)
        return Decision(verdict.allowed, verdict.reason)

    def rules(self, identity: Identity, namespace: str) -> Rules:
        """The rules of all its roles."""
        return Rules(*self.index.rules_of(identity, namespace))

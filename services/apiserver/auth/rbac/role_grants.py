"""Admission of roles and bindings: users grant only what they hold, unless they may escalate or bind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.policy_rules import EVERYTHING, Access, PolicyRule, not_covered, rules_in
from services._rules.kubernetes.rbac.role_index import GROUP, Place, RoleIndex
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.admission.chain import Attributes, nothing
from services.apiserver.auth.authorization import Authorizer
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import Identity

_ROLES: Final = ("roles", "clusterroles")
_BINDINGS: Final = ("rolebindings", "clusterrolebindings")
_REMOVED_WITH: Final = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"})
"""Metadata that the removal of an object changes."""


class RoleGrants:
    """Refuses roles with rules that their writer does not hold, and bindings to such roles."""

    resources = frozenset(f"{GROUP}/{plural}" for plural in (*_ROLES, *_BINDINGS))
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, roles: RoleIndex, authorizer: Authorizer) -> None:
        self._roles = roles
        self._authorizer = authorizer

    mutate = nothing

    async def validate(self, attributes: Attributes) -> None:
        """Refuse what grants more than the writer holds; raises ApiError 403, or 404 for a role that is not there."""
        new, user = attributes.new, attributes.call.user
        if new is None or attributes.subresource or MASTERS in user.groups or _only_removal(new, attributes.old):
            return
        plural = attributes.kind.resource.plural
        if plural in _ROLES:
            self._check_role(attributes, plural, new)
        else:
            self._check_binding(attributes, new)

    def _check_role(self, attributes: Attributes, plural: str, new: Manifest) -> None:
        user = attributes.call.user
        access = Access("escalate", GROUP, "", plural, "", attributes.namespace, attributes.name)
        if self._authorizer.decide(user, access).allowed:
            return
        aggregated = new.get("aggregationRule") or (attributes.old or {}).get("aggregationRule")
        if aggregated and self._missing(user, attributes.namespace, EVERYTHING):
            text = "must have cluster-admin privileges to use the aggregationRule"
            raise status.forbidden(attributes.kind.resource, attributes.name, text)
        self._refuse_more(attributes, rules_in(new))

    def _check_binding(self, attributes: Attributes, new: Manifest) -> None:
        reference = new["roleRef"]
        kind, name = reference["kind"], reference["name"]
        plural = "roles" if kind == "Role" else "clusterroles"
        access = Access("bind", GROUP, "", plural, "", attributes.namespace, name)
        if self._authorizer.decide(attributes.call.user, access).allowed:
            return
        rules = self._roles.role(Place(kind, attributes.namespace if kind == "Role" else "", name))
        if rules is None:
            details = {"name": name, "group": GROUP, "kind": plural}
            raise status.ApiError(404, "NotFound", f'{plural}.{GROUP} "{name}" not found', details)
        self._refuse_more(attributes, rules)

    def _missing(self, user: Identity, namespace: str, wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
        owned, _ = self._roles.rules_of(user, namespace)
        return not_covered(owned, wanted)

    def _refuse_more(self, attributes: Attributes, wanted: Iterable[PolicyRule]) -> None:
        user = attributes.call.user
        missing = self._missing(user, attributes.namespace, wanted)
        if missing:
            groups = " ".join(f'"{group}"' for group in user.groups)
            text = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
            shown = "\n".join(str(rule) for rule in missing)
            raise status.forbidden(attributes.kind.resource, attributes.name, f"{text}\n{shown}")


def _only_removal(new: Manifest, old: Manifest | None) -> bool:
    """Whether an update changes nothing but what the removal of the object needs."""
    return old is not None and _content(new) == _content(old) and _marks(new) != _marks(old)


def _content(manifest: Manifest) -> Manifest:
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in _REMOVED_WITH}
    return {**manifest, "metadata": metadata}


def _marks(manifest: Manifest) -> tuple[object, object]:
    metadata = manifest["metadata"]
    return metadata.get("ownerReferences"), metadata.get("finalizers")

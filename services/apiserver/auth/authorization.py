"""Authorization: the seam through which every request and access review goes."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from services._rules.kubernetes.rbac.policy_rules import EVERYTHING, Access, PolicyRule
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.core.request_context import Identity
from services.apiserver.core.status_errors import ApiError

RBAC: Final = "RBAC"
"""The mode that decides by roles and bindings."""
NODE: Final = "Node"
"""The mode that confines kubelets to their node; roles decide about all others."""


class Decision(msgspec.Struct, frozen=True):
    """Whether it is allowed; with `denied` no further authorizer may allow it."""

    allowed: bool
    reason: str = ""
    denied: bool = False


class Rules(msgspec.Struct, frozen=True):
    """What an identity may do as far as rules say it, what is wrong with the rules, and whether there are others."""

    held: Sequence[PolicyRule] = ()
    problem: str = ""
    incomplete: bool = False


class Authorizer(Protocol):
    """Decides about one access."""

    def decide(self, identity: Identity, access: Access) -> Decision:
        """Answer without I/O."""

    def rules(self, identity: Identity, namespace: str) -> Rules:
        """What an identity may do in a namespace."""

    @property
    def allows_everything(self) -> bool:
        """Whether `decide` can be skipped."""


class AlwaysAllow:
    """Allows every authenticated identity everything."""

    allows_everything = True

    def decide(self, identity: Identity, access: Access) -> Decision:
        return Decision(True)

    def rules(self, identity: Identity, namespace: str) -> Rules:
        return Rules(EVERYTHING)


class MastersOnly:
    """Allows the group system:masters everything; others may review themselves and read discovery and health."""

    allows_everything = False
    _OPEN = ("/api", "/apis", "/healthz", "/livez", "/readyz", "/version", "/openapi")

    def decide(self, identity: Identity, access: Access) -> Decision:
        if MASTERS in identity.groups:
            return Decision(True)
        if access.path and access.verb == "get" and access.path.startswith(self._OPEN):
            return Decision(True)
        if access.group == "authorization.k8s.io" and access.resource.startswith("selfsubject"):
            return Decision(True)
        return Decision(False, f"only members of {MASTERS} may do this")

    def rules(self, identity: Identity, namespace: str) -> Rules:
        return Rules(EVERYTHING if MASTERS in identity.groups else ())


def modes_of(text: str) -> frozenset[str]:
    """The modes that a comma-separated text names; raises ValueError for one that there is not."""
    modes = frozenset(name.strip() for name in text.split(","))
    if modes not in ({"AlwaysAllow"}, {"MastersOnly"}, {RBAC}, {RBAC, NODE}):
        raise ValueError(f"authorization {text!r}: use AlwaysAllow, MastersOnly, {RBAC}, or {NODE},{RBAC}")
    return modes


def refused(identity: Identity, access: Access, reason: str = "") -> ApiError:
    """The error 403 about an access that is not allowed."""
    who = f'User "{identity.name}" cannot {access.verb}'
    after = f": {reason}" if reason else ""
    if access.path:
        return ApiError(403, "Forbidden", f'forbidden: {who} path "{access.path}"{after}', {})
    shown = f"{access.resource}.{access.group}" if access.group else access.resource
    if access.name:
        shown += f' "{access.name}"'
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    text = f'{shown} is forbidden: {who} resource "{access.kind_of_resource}" in API group "{access.group}" {where}'
    details: dict[str, Any] = {"name": access.name, "group": access.group, "kind": access.resource}
    return ApiError(403, "Forbidden", text + after, {name: value for name, value in details.items() if value})

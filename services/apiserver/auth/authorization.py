"""Authorization: the seam through which every request and access review goes."""

from typing import Protocol

import msgspec

from services.apiserver.core.request_context import SYSTEM_MASTERS, Identity


class Access(msgspec.Struct, frozen=True):
    """The attributes of a request; `path` is set instead of the resource fields for paths outside the API."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Decision(msgspec.Struct, frozen=True):
    """Whether it is allowed; with `denied` no further authorizer may allow it."""

    allowed: bool
    reason: str = ""
    denied: bool = False


class Authorizer(Protocol):
    """Decides about one access."""

    def decide(self, identity: Identity, access: Access) -> Decision:
        """Answer without I/O."""

    @property
    def allows_everything(self) -> bool:
        """Whether `decide` can be skipped."""


class AlwaysAllow:
    """Allows every authenticated identity everything."""

    allows_everything = True

    def decide(self, identity: Identity, access: Access) -> Decision:
        return Decision(True)


class MastersOnly:
    """Allows the group system:masters everything; others may review themselves and read discovery and health."""

    allows_everything = False
    _OPEN = ("/api", "/apis", "/healthz", "/livez", "/readyz", "/version", "/openapi")

    def decide(self, identity: Identity, access: Access) -> Decision:
        if SYSTEM_MASTERS in identity.groups:
            return Decision(True)
        if access.path and access.verb == "get" and access.path.startswith(self._OPEN):
            return Decision(True)
        if access.group == "authorization.k8s.io" and access.resource.startswith("selfsubject"):
            return Decision(True)
        return Decision(False, f"only members of {SYSTEM_MASTERS} may do this")

"""Decides which requests of the hub's callers this member permits; what they may do is for its API server to say."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct

from services._kit.base.settings import SettingsError
from services._rules.kubernetes.rbac.policy_rules import ALL, Access, PolicyRule
from services._rules.proxying.inner_requests import BadPath, check_path, inner_resource

READ: Final = "read"
EVERYTHING: Final = "all"
_ENTERING: Final = frozenset({"attach", "exec", "portforward", "proxy"})
"""Subresources that lead into a pod, a node or a service: always `create`, whatever the method."""
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_FALSE: Final = frozenset({"", "0", "false", "False", "FALSE", "f", "F"})
_DISCOVERY: Final = frozenset({"/api", "/apis", "/version", "/healthz", "/livez", "/readyz"})


class Permission(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One entry of the list, in the words of a role's rule, within `namespaces` (none: everywhere)."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    except_resources: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def allows(self, access: Access) -> bool:
        """Whether this entry permits an access."""
        if access.resource:
            if self.namespaces and access.namespace not in self.namespaces:
                return False
            if access.resource in self.except_resources or access.kind_of_resource in self.except_resources:
                return False
        groups, names = self.api_groups, self.resource_names
        return PolicyRule(self.verbs, groups, self.resources, names, self.non_resource_urls).allows(access)


class AllowList(Struct, frozen=True):
    """What a member permits; without entries nothing."""

    permissions: tuple[Permission, ...] = ()

    def problem(self, method: str, path: str) -> str:
        """Why a request is not permitted; empty when it is."""
        try:
            access = access_of(method, path)
        except BadPath as error:
            return str(error)
        if _is_discovery(access) or any(permission.allows(access) for permission in self.permissions):
            return ""
        where = f" in namespace {access.namespace}" if access.namespace else ""
        what = f"{access.verb} {access.path}" if access.path else f"{access.verb} {_named(access)}{where}"
        return f"its agent does not permit {what} (FLEETLOG_AGENT_REQUESTS in the member)"


def allow_list(setting: str) -> AllowList:
    """The list that a setting asks for: `read`, `all`, or a file with entries. Raises SettingsError."""
    every = (ALL,)
    if setting == EVERYTHING:
        return AllowList((Permission(every, every, every, non_resource_urls=every),))
    if setting == READ:
        reads = ("get", "list", "watch")
        return AllowList((Permission(reads, every, every, except_resources=("secrets",)),))
    variable = "FLEETLOG_AGENT_REQUESTS"
    try:
        return AllowList(msgspec.yaml.decode(Path(setting).read_bytes(), type=tuple[Permission, ...]))
    except OSError as error:
        raise SettingsError(f"{variable}: neither {READ} nor {EVERYTHING} nor a file: {setting}: {error}") from None
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{variable}: {setting}: {error}") from None


def answered(setting: str) -> str:
    """What a setting permits, in a word for people; empty where it permits nothing."""
    return setting if setting in ("", READ, EVERYTHING) else "those in its list"


def access_of(method: str, path: str) -> Access:
    """What a request asks an API server for; raises BadPath for one that could be read as another."""
    bare, _, query = path.partition("?")
    check_path(bare)
    found = inner_resource(bare)
    if found is None:
        plain = unquote(bare)
        if "//" in plain or plain.count("/") != bare.count("/"):
            raise BadPath("the path must hold neither empty segments nor encoded slashes")
        return Access(method.lower(), path=plain.rstrip("/") or "/")
    parts = (found.group, found.version, found.namespace, found.resource, found.name, found.subresource)
    if any("/" in part or "%" in part for part in parts):
        # API servers decode a path before they take it apart.
        raise BadPath("the path must not hold encoded slashes")
    if found.subresource != "proxy" and "//" in bare.rstrip("/"):
        raise BadPath("the path must not hold empty segments")
    if found.subresource in _ENTERING:
        verb = "create"
    elif method in ("GET", "HEAD"):
        verb = "watch" if found.watch or _watches(query, found.name) else "get" if found.name else "list"
    elif method == "DELETE":
        verb = "delete" if found.name else "deletecollection"
    else:
        verb = _VERBS.get(method, method.lower())
    namespace = found.name if found.resource == "namespaces" and not found.group else found.namespace
    return Access(verb, found.group, found.version, found.resource, found.subresource, namespace, found.name)


def _watches(query: str, name: str) -> bool:
    return not name and any(key == "watch" and value not in _FALSE for key, value in parse_qsl(query))


def _is_discovery(access: Access) -> bool:
    """Whether it asks which kinds there are, and whether the server is well: any client does."""
    if access.verb not in ("get", "head") or not access.path:
        return False
    return access.path in _DISCOVERY or access.path.startswith(("/openapi/", "/api/", "/apis/"))


def _named(access: Access) -> str:
    kind = f"{access.resource}.{access.group}" if access.group else access.resource
    return f"{kind}/{access.subresource}" if access.subresource else kind

"""Impersonation: the identity that a request's headers ask for, and what its user has to be allowed for it."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from services._rules.kubernetes.rbac.policy_rules import Access
from services._rules.kubernetes.rbac.user_names import ANONYMOUS_USER, UNAUTHENTICATED, account_groups, account_of
from services.apiserver.auth.authentication import with_authenticated
from services.apiserver.core.request_context import Identity
from services.apiserver.core.status_errors import bad_request

_GROUP: Final = "authentication.k8s.io"
_EXTRA: Final = "impersonate-extra-"


def impersonation(headers: Any) -> Identity | None:
    """The identity that Impersonate-* headers ask for, None without any; the caller checks that it may be taken."""
    for name in headers:
        if name[0] in "iI" and name.lower().startswith("impersonate-"):
            break
    else:
        return None
    groups: tuple[str, ...] = tuple(headers.getall("Impersonate-Group", []))
    extra: dict[str, list[str]] = {}
    for name in headers:
        low = name.lower()
        if low.startswith(_EXTRA):
            extra[unquote(low[len(_EXTRA) :])] = headers.getall(name)
    name, uid = headers.get("Impersonate-User", ""), headers.get("Impersonate-Uid", "")
    if not name:
        if groups or extra or uid:
            raise bad_request(_without_user(groups, extra, uid))
        return None
    if not groups and (account := account_of(name)) is not None:
        groups = account_groups(account[0])
    if name == ANONYMOUS_USER and UNAUTHENTICATED not in groups:
        groups = (*groups, UNAUTHENTICATED)
    return with_authenticated(Identity(name, uid, groups, extra))


def impersonated_as(headers: Any, identity: Identity) -> Iterator[Access]:
    """The accesses that impersonation needs: to the user or service account, and to each group and extra value."""
    account = account_of(identity.name)
    if account is not None:
        yield Access("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Access("impersonate", resource="users", name=identity.name)
    for group in headers.getall("Impersonate-Group", []):
        yield Access("impersonate", resource="groups", name=group)
    if identity.uid:
        yield Access("impersonate", _GROUP, resource="uids", name=identity.uid)
    for key, values in identity.extra.items():
        for value in values:
            yield Access("impersonate", _GROUP, resource="userextras", subresource=key, name=value)


def _without_user(groups: tuple[str, ...], extra: dict[str, list[str]], uid: str) -> str:
    asked = [f"{{Group  {group}    }}" for group in groups]
    asked += [f"{{UserExtra  {v}  authentication.k8s.io/v1  {k}}}" for k, values in extra.items() for v in values]
    asked += [f"{{UID  {uid}  authentication.k8s.io/v1  }}"] if uid else []
    return f"requested [{' '.join(asked)}] without impersonating a user"

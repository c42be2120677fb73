"""Names of users and groups that mean something by themselves: service accounts, nodes, administrators, anonymous."""

from __future__ import annotations

from typing import Final

MASTERS: Final = "system:masters"
"""The group that may do everything."""
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ANONYMOUS_USER: Final = "system:anonymous"
NODES: Final = "system:nodes"
_NODE: Final = "system:node:"
_ACCOUNT: Final = "system:serviceaccount:"
_ACCOUNTS: Final = "system:serviceaccounts"


def account_user(namespace: str, name: str) -> str:
    """The user that a service account is."""
    return f"{_ACCOUNT}{namespace}:{name}"


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user is; None for other users."""
    if not user.startswith(_ACCOUNT):
        return None
    namespace, colon, name = user[len(_ACCOUNT) :].partition(":")
    return (namespace, name) if colon and namespace and name and ":" not in name else None


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of every service account of a namespace."""
    return (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}", AUTHENTICATED)


def node_of(user: str, groups: tuple[str, ...]) -> str:
    """The name of the node that a user is the kubelet of; empty for other users."""
    return user[len(_NODE) :] if user.startswith(_NODE) and NODES in groups else ""

"""Tokens of service accounts: what they claim, and whether what a token names still exists."""

from __future__ import annotations

import base64
import datetime as dt
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.user_names import account_groups, account_of, account_user
from services.apiserver.core.request_context import Identity
from services.apiserver.store.store_port import Key, Store

ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
SECRET_ISSUER: Final = "kubernetes/serviceaccount"
"""Who issues the tokens that are kept in Secrets, which do not expire."""
BOUND: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
"""Kinds of the objects that a token may be bound to."""
_CLAIM: Final = "kubernetes.io/serviceaccount/"
_LEAVING: Final = dt.timedelta(seconds=60)
"""How long the tokens of an object that is being deleted count after the time of its deletion."""


def secret_claims(secret: Manifest, account: Manifest) -> dict[str, Any]:
    """What the token in a Secret claims; each has an id of its own, so that a new token ends the one before."""
    meta, owner = secret["metadata"], account["metadata"]
    namespace, name = owner["namespace"], owner["name"]
    return {
        "iss": SECRET_ISSUER,
        "jti": str(uuid.uuid4()),
        "sub": account_user(namespace, name),
        _CLAIM + "namespace": namespace,
        _CLAIM + "secret.name": meta["name"],
        _CLAIM + "service-account.name": name,
        _CLAIM + "service-account.uid": owner["uid"],
    }


def service_account(namespace: str, name: str, uid: str = "") -> Identity:
    """The identity a service account acts under."""
    return Identity(account_user(namespace, name), uid, account_groups(namespace))


def from_claims(claims: Mapping[str, Any]) -> Identity | None:
    """The identity that a token of a service account claims, with what it is bound to; None for any other token."""
    subject = _subject_of(claims)
    if subject is None:
        return None
    account = service_account(*subject)
    extra = {
        f"authentication.kubernetes.io/{word}-{field}": [str(bound.get(field) or "")]
        for word in ("pod", "node")
        if (bound := _part(_part(claims, "kubernetes.io"), word))
        for field in ("name", "uid")
    }
    return Identity(account.name, account.uid, account.groups, extra) if extra else account


def _subject_of(claims: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Namespace, name and uid of the account that a token is of."""
    account = account_of(str(claims.get("sub", "")))
    if account is None:
        return None
    if claims.get("iss") == SECRET_ISSUER:
        return *account, str(claims.get(_CLAIM + "service-account.uid") or "")
    own = _part(_part(claims, "kubernetes.io"), "serviceaccount")
    return *account, str(own.get("uid") or "")


class ServiceAccounts:
    """The service accounts of a store, and what their tokens hang on."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, namespace: str, name: str, uid: str = "") -> Manifest | None:
        """An account, with a uid only that one."""
        return self._object("serviceaccounts", namespace, name, uid)

    def honours(self, claims: Mapping[str, Any], token: str, now: float) -> bool:
        """Whether a token that was signed here still counts.

        Its account has to exist, and what it is bound to; a token from a Secret has to be there still. What is being
        deleted and should be gone by now does not count.
        """
        subject = _subject_of(claims)
        if subject is None or not _stays(self.find(*subject), now):
            return False
        namespace = subject[0]
        if claims.get("iss") == SECRET_ISSUER:
            secret = self._object("secrets", namespace, str(claims.get(_CLAIM + "secret.name") or ""), "")
            kept = ((secret or {}).get("data") or {}).get("token")
            return bool(kept == base64.b64encode(token.encode()).decode())
        return all(_stays(bound, now) for bound in self._bound_to(claims, namespace))

    def _bound_to(self, claims: Mapping[str, Any], namespace: str) -> Iterator[Manifest | None]:
        own = _part(claims, "kubernetes.io")
        for kind, plural in BOUND.items():
            if bound := _part(own, kind.lower()):
                place = "" if kind == "Node" else namespace
                yield self._object(plural, place, str(bound.get("name") or ""), str(bound.get("uid") or ""))

    def _object(self, plural: str, namespace: str, name: str, uid: str) -> Manifest | None:
        entry = self._store.get(Key("", plural, namespace, name))
        if entry is None or (uid and entry.obj["metadata"].get("uid") != uid):
            return None
        return entry.obj


def _stays(found: Manifest | None, now: float) -> bool:
    """Whether an object is there and not overdue to go."""
    ends = "" if found is None else found["metadata"].get("deletionTimestamp")
    if found is None or not ends:
        return found is not None
    try:
        leaves = dt.datetime.fromisoformat(ends)
    except ValueError:
        return False
    return leaves + _LEAVING > dt.datetime.fromtimestamp(now, dt.UTC)


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}

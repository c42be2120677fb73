"""Writes operator, account, user and activation tokens of NATS: access to the log, signed instead of configured.

The same accounts as in `accounts`, in the words of NATS JWT version 2. The hub exports a wildcard per kind of subject,
and an account imports the one subject for which the hub's key signed it an activation: a member that comes needs no
change of the hub's claims, and one that goes is named in the revocations of these exports. Same keys and times, same
tokens.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from schemas.subjects import escape
from services._rules.identity.accounts import (
    HUB,
    OBSERVER,
    Export,
    agent_account,
    agent_exports,
    observer_exports,
    observer_subject,
)
from services._rules.identity.service_rights import rights_of

Claims = dict[str, Any]

SYSTEM: Final = "SYS"
UPDATE_SUBJECT: Final = "$SYS.REQ.CLAIMS.UPDATE"
DELETE_SUBJECT: Final = "$SYS.REQ.CLAIMS.DELETE"
EVERY_USER: Final = "*"
AGENT_CONNECTIONS: Final = 16
"""Connections that one agent's account may hold; an agent and its replacement need two."""
OBSERVER_CONNECTIONS: Final = 64
_VERSION: Final = 2
_NO_LIMIT: Final = -1
_HEADER: Final = {"typ": "JWT", "alg": "ed25519-nkey"}


class Signer(Protocol):
    """A key pair of NATS that signs."""

    @property
    def public_key(self) -> bytes | bytearray:
        """The public half, as text in bytes."""

    def sign(self, data: bytes) -> bytes:
        """The Ed25519 signature."""


class Activation(Struct, frozen=True):
    """What an account may import, and the hub's signature under it."""

    export: Export
    token: str


def public(key: Signer) -> str:
    """The public key as text (`O…`, `A…`, `U…`)."""
    return bytes(key.public_key).decode()


def hub_exports() -> tuple[Export, ...]:
    """What the hub exports: the subjects of one agent, a wildcard where its name stands, and those of observers."""
    mark = "name-of-a-cluster"
    of_agents = (Export(_wildcard(export.subject, escape(mark)), export.stream) for export in agent_exports(mark))
    return (*of_agents, *observer_exports())


def operator_token(identity: Signer, signing: Signer, system: str, *, name: str, at: int) -> str:
    """The operator's own token: its signing key signs the accounts, so that its identity may be put away."""
    body = {"signing_keys": [public(signing)], "system_account": system}
    return _token(identity, public(identity), name, "operator", body, at)


def hub_token(signing: Signer, account: str, *, at: int, revoked: Mapping[str, int] | None = None) -> str:
    """Claims of the hub's account; `revoked` holds accounts and the seconds until which their activations are void."""
    exports = [
        {
            "name": export.subject,
            "subject": export.subject,
            "type": export.kind,
            "token_req": True,
            **({} if export.live else {"response_type": "Stream" if export.stream else "Singleton"}),
            **({"revocations": dict(sorted(revoked.items()))} if revoked else {}),
        }
        for export in hub_exports()
    ]
    limits = _limits(exports=_NO_LIMIT, imports=_NO_LIMIT, connections=_NO_LIMIT, jetstream=True)
    return _token(signing, account, HUB, "account", {"exports": exports, "limits": limits}, at)


def system_token(signing: Signer, account: str, *, at: int) -> str:
    """Claims of the system's account, through which claims are handed to running servers."""
    limits = _limits(exports=_NO_LIMIT, imports=_NO_LIMIT, connections=_NO_LIMIT)
    return _token(signing, account, SYSTEM, "account", {"limits": limits}, at)


def activations(hub: Signer, account: str, exports: Iterable[Export], *, at: int) -> tuple[Activation, ...]:
    """The hub's leave for one account to import what it exports."""
    made = []
    for export in exports:
        body = {"subject": export.subject, "kind": export.kind}
        made.append(Activation(export, _token(hub, account, export.subject, "activation", body, at)))
    return tuple(made)


def agent_token(
    signing: Signer, account: str, cluster: str, hub: str, allowed: Iterable[Activation], *, at: int
) -> str:
    """Claims of the account of a cluster's agent: what it imports from the hub, and nothing of its own."""
    imports = [_import(one, hub, one.export.subject) for one in allowed]
    limits = _limits(exports=0, imports=len(imports), connections=AGENT_CONNECTIONS)
    return _token(signing, account, agent_account(cluster), "account", {"imports": imports, "limits": limits}, at)


def observer_token(signing: Signer, account: str, hub: str, allowed: Iterable[Activation], *, at: int) -> str:
    """Claims of the account of observers: reads of the hub's streams under subjects of their own, and nothing else."""
    imports = [_import(one, hub, observer_subject(one.export.subject)) for one in allowed]
    limits = _limits(exports=0, imports=len(imports), connections=OBSERVER_CONNECTIONS)
    return _token(signing, account, OBSERVER, "account", {"imports": imports, "limits": limits}, at)


def _import(one: Activation, hub: str, here: str) -> Claims:
    subject = one.export.subject
    local = {"local_subject": here} if here != subject else {}
    return {"name": subject, "subject": subject, "account": hub, "token": one.token, "type": one.export.kind, **local}


def closed_token(signing: Signer, account: str, cluster: str, *, at: int) -> str:
    """Claims of an account that is over: no imports, no connection, and every user until now revoked."""
    body = {"revocations": {EVERY_USER: at}, "limits": _limits(exports=0, imports=0, connections=0)}
    return _token(signing, account, agent_account(cluster), "account", body, at)


def agent_user_token(account: Signer, user: str, cluster: str, *, at: int) -> str:
    """The token of an agent's user: it may send to its own subjects and hear answers."""
    subjects = [export.subject for export in agent_exports(cluster)]
    return user_token(account, user, agent_account(cluster), publish=subjects, subscribe=["_INBOX.>"], at=at)


def service_user_token(account: Signer, user: str, service: str, *, at: int) -> str:
    """The token of a service's user: it may send and hear what that service does, and nothing else."""
    rights = rights_of(service)
    return user_token(
        account,
        user,
        service,
        publish=rights.publish,
        subscribe=rights.subscribe,
        not_publish=rights.not_publish,
        at=at,
    )


def user_token(
    account: Signer,
    user: str,
    name: str,
    *,
    at: int,
    publish: Iterable[str] = (),
    subscribe: Iterable[str] = (),
    not_publish: Iterable[str] = (),
) -> str:
    """The token of a user of an account; without subjects it may use all that its account may."""
    allow_publish, allow_subscribe, deny_publish = list(publish), list(subscribe), list(not_publish)
    body: Claims = {"pub": {}, "sub": {}, "subs": _NO_LIMIT, "data": _NO_LIMIT, "payload": _NO_LIMIT}
    if allow_publish:
        body["pub"] = {"allow": allow_publish, **({"deny": deny_publish} if deny_publish else {})}
    if allow_subscribe:
        body["sub"] = {"allow": allow_subscribe}
    return _token(account, user, name, "user", body, at)


def deletion_token(signing: Signer, accounts: Iterable[str], *, at: int) -> str:
    """The operator's word that accounts are to be removed from the servers."""
    return _token(signing, public(signing), "delete", "generic", {"accounts": list(accounts)}, at)


def creds_text(token: str, seed: str) -> str:
    """The text of a credentials file: a user's token and its key."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        "A client that has this key is this user.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def _wildcard(subject: str, name: str) -> str:
    return ".".join("*" if token.endswith(name) else token for token in subject.split("."))


def _limits(*, exports: int, imports: int, connections: int, jetstream: bool = False) -> Claims:
    """Limits of an account; the server takes what is not there for nought."""
    limits: Claims = {
        "subs": _NO_LIMIT,
        "data": _NO_LIMIT,
        "payload": _NO_LIMIT,
        "imports": imports,
        "exports": exports,
        "wildcards": True,
        "conn": connections,
        "leaf": 0,
    }
    if jetstream:
        limits |= dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer", "max_ack_pending"), _NO_LIMIT)
    return limits


def _token(signer: Signer, subject: str, name: str, kind: str, body: Claims, at: int) -> str:
    """A signed token; its id is a digest of the rest."""
    claims = {
        "jti": "",
        "iat": at,
        "iss": public(signer),
        "name": name,
        "sub": subject,
        "nats": {**body, "type": kind, "version": _VERSION},
    }
    claims["jti"] = base64.b32encode(hashlib.sha256(_json(claims)).digest()).decode().rstrip("=")
    signed = f"{_part(_json(_HEADER))}.{_part(_json(claims))}"
    return f"{signed}.{_part(bytes(signer.sign(signed.encode())))}"


def _json(value: Claims | dict[str, str]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")

"""Keeps the keys of an operator of NATS in a directory, and what was issued with them: who signs the agents' accounts.

Files, readable by their owner only: `operator.nk` (may be put away; nothing here needs it again), `signing.nk` (signs
accounts), `hub.nk` (signs activations and users of the services), credentials `hub.creds`, `system.creds` and
`services/<name>.creds`, `accounts.conf` for the server's configuration, and `issued.json`. The key of an agent's
account is forgotten when its one user is signed.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.topology import SERVICES
from services._kit.base.private_files import private_json, private_text
from services._rules.identity import account_tokens as tokens
from services._rules.identity.accounts import OBSERVER_USER, agent_exports, observer_exports
from services.cli.common.layout import SERVICES_CREDS
from services.cli.common.running import Failed
from services.cli.nats.nkeys import key_of, new_key, new_seed, read_key

DIRECTORY: Final = "nats-auth"
"""Name of the directory below an installation's."""
HUB_CREDS: Final = "hub.creds"
SYSTEM_CREDS: Final = "system.creds"
OBSERVER_CREDS: Final = "observer.creds"
CONFIG: Final = "accounts.conf"
_ISSUED: Final = "issued.json"
_SYSTEM_PUBLISH: Final = (
    tokens.UPDATE_SUBJECT,
    tokens.DELETE_SUBJECT,
    "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP",
    # What `nats server report` asks.
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.SERVER.PING.*",
    "$SYS.REQ.ACCOUNT.PING.*",
    "$SYS.REQ.ACCOUNT.*.*",
)


class Issued(Struct, frozen=True):
    """The account and the user that an agent or the observers have, and when (Unix seconds) its account was signed."""

    account: str
    user: str
    at: int


class Book(Struct, kw_only=True):
    """What was issued: agents by cluster, observers, accounts that are void with the time until which, and URLs."""

    url: str
    hub: str
    hub_at: int
    agents: dict[str, Issued] = {}
    observer: Issued | None = None
    revoked: dict[str, int] = {}
    exported: list[str] = []
    """Subjects in the hub's claims that the servers have last."""


class Admission(Struct, frozen=True):
    """A new agent's identity: the claims for the servers, and the token of its user."""

    account: str
    claims: str
    user_token: str


class Observation(Struct, frozen=True):
    """The identity of observers: the claims of their account and of the hub for the servers, and the credentials."""

    claims: str
    hub: str
    creds: str
    superseded: str = ""
    """The operator's word that ends an earlier account of theirs."""


class Expulsion(Struct, frozen=True):
    """What ends an identity, in the order in which servers receive it."""

    closed: str
    hub: str
    deletion: str


class Authority:
    """The keys in a directory; raises Failed where there are none or they cannot be read."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self._clock = clock
        if not (directory / _ISSUED).is_file():
            raise Failed(
                f"{directory} holds no keys of an operator; make them with: fleetlog nats init --out {directory}"
            )

    @property
    def system_creds(self) -> Path:
        """Credentials of the user that hands claims to servers."""
        return self.directory / SYSTEM_CREDS

    @property
    def hub_creds(self) -> Path:
        """Credentials of the services."""
        return self.directory / HUB_CREDS

    @property
    def observer_creds(self) -> Path:
        """Credentials of observers, once there are any."""
        return self.directory / OBSERVER_CREDS

    def book(self) -> Book:
        """What was issued so far."""
        try:
            return msgspec.json.decode((self.directory / _ISSUED).read_bytes(), type=Book)
        except (OSError, msgspec.MsgspecError) as error:
            raise Failed(f"{self.directory / _ISSUED} cannot be read: {error}") from None

    @contextmanager
    def changed(self) -> Iterator[Book]:
        """The book for a change, saved afterwards; one process at a time changes it."""
        with (self.directory / "issued.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            book = self.book()
            yield book
            private_json(self.directory / _ISSUED, book)

    def admit(self, cluster: str, user: str) -> Admission:
        """Issue an account for a cluster's agent whose user has this public key; raises Failed when it has one."""
        import nkeys

        with self.changed() as book:
            if cluster in book.agents:
                raise Failed(
                    f"the agent of {cluster} has an identity already; end it first: karmadactl unjoin {cluster}"
                )
            account, signing, hub = new_key("account"), self._key("signing"), self._key("hub")
            name, at = tokens.public(account), int(self._clock())
            allowed = tokens.activations(hub, name, agent_exports(cluster), at=at)
            claims = tokens.agent_token(signing, name, cluster, tokens.public(hub), allowed, at=at)
            try:
                user_token = tokens.agent_user_token(account, user, cluster, at=at)
            except nkeys.NkeysError as error:
                raise Failed(f"{user!r} is no public user key: {error}") from None
            book.agents[cluster] = Issued(account=name, user=user, at=at)
        return Admission(account=name, claims=claims, user_token=user_token)

    def observe(self) -> Observation:
        """Issue an account for observers with one user; one issued before is void from then on."""
        with self.changed() as book:
            account, signing, hub, seed = new_key("account"), self._key("signing"), self._key("hub"), new_seed("user")
            name, user, before = tokens.public(account), tokens.public(key_of(seed)), book.observer
            at = book.hub_at = max(int(self._clock()), book.hub_at + 1)
            if before is not None:
                book.revoked[before.account] = at
            allowed = tokens.activations(hub, name, observer_exports(), at=at)
            book.observer = Issued(account=name, user=user, at=at)
            book.exported = _exported()
            return Observation(
                claims=tokens.observer_token(signing, name, tokens.public(hub), allowed, at=at),
                hub=tokens.hub_token(signing, book.hub, at=at, revoked=book.revoked),
                creds=tokens.creds_text(tokens.user_token(account, user, OBSERVER_USER, at=at), seed),
                superseded=tokens.deletion_token(signing, [before.account], at=at) if before is not None else "",
            )

    def issue_services(self) -> Path:
        """Write credentials for each service that has none here; the directory with them."""
        hub, at, directory = self._key("hub"), int(self._clock()), self.directory / SERVICES_CREDS
        for service in SERVICES:
            path = directory / f"{service}.creds"
            if not path.exists():
                seed = new_seed("user")
                token = tokens.service_user_token(hub, tokens.public(key_of(seed)), service, at=at)
                private_text(path, tokens.creds_text(token, seed))
        return directory

    def expel(self, cluster: str) -> Expulsion | None:
        """Void a cluster's identity; None when it has none. Saying so again gives the same words again."""
        with self.changed() as book:
            issued = book.agents.get(cluster)
            if issued is None:
                return None
            # Claims of the same second as the earlier ones would not replace them.
            at = max(int(self._clock()), issued.at + 1)
            book.revoked[issued.account] = at
            book.hub_at = max(int(self._clock()), book.hub_at + 1)
            signing = self._key("signing")
            return Expulsion(
                closed=tokens.closed_token(signing, issued.account, cluster, at=at),
                hub=tokens.hub_token(signing, book.hub, at=book.hub_at, revoked=book.revoked),
                deletion=tokens.deletion_token(signing, [issued.account], at=at),
            )

    def hub_claims(self) -> str:
        """New claims of the hub's account where an earlier version exported other subjects; empty otherwise."""
        with self.changed() as book:
            if book.exported == _exported():
                return ""
            book.hub_at = max(int(self._clock()), book.hub_at + 1)
            return tokens.hub_token(self._key("signing"), book.hub, at=book.hub_at, revoked=book.revoked)

    def hub_claims_taken(self) -> None:
        """The servers have these claims."""
        with self.changed() as book:
            book.exported = _exported()

    def forget(self, cluster: str) -> None:
        """The servers know that an identity is void: the cluster may get another one."""
        with self.changed() as book:
            book.agents.pop(cluster, None)

    def _key(self, name: str) -> Any:
        return read_key(self.directory / f"{name}.nk")


def _exported() -> list[str]:
    return [export.subject for export in tokens.hub_exports()]


def made(directory: Path) -> bool:
    """Whether a directory holds the keys of an operator."""
    return (directory / _ISSUED).is_file()


def create(directory: Path, url: str, resolver: Path, name: str = "fleetlog", *, observer: bool = False) -> Authority:
    """Make an operator with accounts for the hub and the system, and the part of the server's configuration.

    With `observer` there is an account for observers from the beginning.

    Raises Failed where the directory holds keys already: who loses them locks everybody out.
    """
    if made(directory) or (directory / "signing.nk").exists():
        raise Failed(f"{directory} holds the keys of an operator already; they stay as they are")
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    seeds = {"operator": new_seed("operator"), "signing": new_seed("operator"), "hub": new_seed("account")}
    for file, seed in seeds.items():
        private_text(directory / f"{file}.nk", f"{seed}\n")
    operator, signing, hub = (key_of(seed) for seed in seeds.values())
    system, at = new_key("account"), int(time.time())
    system_name, hub_name = tokens.public(system), tokens.public(hub)
    for file, account, user_name, publish in (
        (HUB_CREDS, hub, "services", ()),
        (SYSTEM_CREDS, system, "claims", _SYSTEM_PUBLISH),
    ):
        seed = new_seed("user")
        subscribe = ("_INBOX.>",) if publish else ()
        token = tokens.user_token(
            account, tokens.public(key_of(seed)), user_name, at=at, publish=publish, subscribe=subscribe
        )
        private_text(directory / file, tokens.creds_text(token, seed))
    preload = {
        system_name: tokens.system_token(signing, system_name, at=at),
        hub_name: tokens.hub_token(signing, hub_name, at=at),
    }
    operator_token = tokens.operator_token(operator, signing, system_name, name=name, at=at)
    private_json(directory / _ISSUED, Book(url=url, hub=hub_name, hub_at=at, exported=_exported()))
    authority = Authority(directory)
    authority.issue_services()
    if observer:
        observation = authority.observe()
        private_text(authority.observer_creds, observation.creds)
        issued = authority.book().observer
        preload |= {hub_name: observation.hub, **({issued.account: observation.claims} if issued is not None else {})}
    private_text(directory / CONFIG, server_config(operator_token, system_name, preload, resolver))
    return authority


def server_config(operator: str, system: str, preload: dict[str, str], resolver: Path) -> str:
    """The part of a server's configuration that makes it ask for signed accounts, to be included in the rest."""
    known = "\n".join(f"  {account}: {token}" for account, token in preload.items())
    return f"""# Written by `fleetlog nats init`. The same on every server of a cluster.
operator: {operator}
system_account: {system}
resolver {{
  type: full
  dir: "{resolver}"
  allow_delete: true
  interval: "2m"
  timeout: "1s"
}}
resolver_preload {{
{known}
}}
"""

"""Hands signed accounts to the running servers, and asks every one of them whether it has taken a change over."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from services._kit.base.log_errors import LogError
from services._kit.base.private_files import private_text
from services._kit.base.settings import log_settings, tls_context
from services._kit.log.connection import Connection
from services._rules.identity.account_tokens import DELETE_SUBJECT, UPDATE_SUBJECT, creds_text
from services.cli.common.running import Failed
from services.cli.nats import login_check as letting_in
from services.cli.nats.authority import Authority
from services.cli.nats.login_check import log_in
from services.cli.nats.nkeys import new_seed, public_key

_TRY_SECONDS: Final = 4.0
"""Longer than a server looks for an account that it does not know."""


class _Error(msgspec.Struct):
    """Why a server did not take claims."""

    description: str = ""


class _Answer(msgspec.Struct):
    """What a server says to claims it was handed."""

    error: _Error | None = None


async def connect(url: str, creds: Path) -> Connection | str:
    """A connection with the identity of a credentials file, or why there is none."""
    tls = tls_context(log_settings(os.environ))
    return await log_in(url, "fleetlog/claims", _TRY_SECONDS, user_credentials=str(creds), tls=tls)


def trusted_authority() -> str:
    """The authority (PEM) of the log's servers that this environment names; empty without one. Raises OSError."""
    path = log_settings(os.environ).tls_ca
    return Path(path).read_text(encoding="utf-8") if path else ""


@asynccontextmanager
async def opened(url: str, creds: Path) -> AsyncIterator[Connection]:
    """A connection that must be; raises Failed saying why there is none."""
    answer = await connect(url, creds)
    if isinstance(answer, str):
        raise Failed(f"the log's server at {url} cannot be reached as {creds.name}: {answer}")
    try:
        yield answer
    finally:
        await answer.close()


async def reachable(authority: Authority, url: str) -> None:
    """Raises Failed unless the servers can be handed claims."""
    async with opened(url, authority.system_creds):
        pass


async def admit(authority: Authority, url: str, cluster: str, user: str) -> str:
    """Issue the account of a cluster's agent and hand it to the servers; the token of the agent's user.

    An identity that is left from before is ended first. Raises Failed; nothing is issued where the servers cannot be
    reached.
    """
    async with opened(url, authority.system_creds) as system:
        if cluster in authority.book().agents:
            await _expel(authority, system, cluster)
        if hub := authority.hub_claims():
            await _hand(system, UPDATE_SUBJECT, hub)
            authority.hub_claims_taken()
        admission = authority.admit(cluster, user)
        await _hand(system, UPDATE_SUBJECT, admission.claims)
    return admission.user_token


async def hand_over_observer(authority: Authority, url: str) -> str:
    """Issue the account of observers and hand it to the servers; their credentials. Raises Failed."""
    async with opened(url, authority.system_creds) as system:
        observation = authority.observe()
        await _hand(system, UPDATE_SUBJECT, observation.hub)
        await _hand(system, UPDATE_SUBJECT, observation.claims)
        if observation.superseded:
            await _hand(system, DELETE_SUBJECT, observation.superseded)
    return observation.creds


async def admit_here(authority: Authority, url: str, cluster: str, creds: Path) -> Path:
    """Give a cluster's agent a new identity that every server accepts; the credentials file appears last."""
    seed = new_seed("user")
    token = await admit(authority, url, cluster, public_key(seed))
    with TemporaryDirectory(prefix="fleetlog-") as directory:
        trial = Path(directory) / "agent.creds"
        private_text(trial, creds_text(token, seed))
        await until_heard(authority, url, cluster, trial)
    private_text(creds, creds_text(token, seed))
    return creds


async def expel(authority: Authority, url: str, cluster: str) -> bool:
    """End the identity of a cluster's agent: it is disconnected and does not come back; false when it had none.

    The account is emptied and its users revoked, the hub voids what it allowed it, and only then is it deleted: a
    server that is down meanwhile may find the old account again in its directory, but nothing behind it.
    """
    if cluster not in authority.book().agents:
        return False
    async with opened(url, authority.system_creds) as system:
        await _expel(authority, system, cluster)
    return True


async def revoke(authority: Authority, url: str, cluster: str) -> None:
    """End the identity of a cluster's agent; raises Failed where it has none."""
    if not await expel(authority, url, cluster):
        raise Failed(f"no agent of {cluster} was let in with the keys in {authority.directory}")


async def _expel(authority: Authority, system: Connection, cluster: str) -> None:
    expulsion = authority.expel(cluster)
    if expulsion is None:
        return
    await _hand(system, UPDATE_SUBJECT, expulsion.closed)
    await _hand(system, UPDATE_SUBJECT, expulsion.hub)
    await _hand(system, DELETE_SUBJECT, expulsion.deletion)
    authority.forget(cluster)


async def _hand(system: Connection, subject: str, token: str) -> None:
    try:
        message = await system.request(subject, token.encode(), timeout=letting_in.PATIENCE)
        answer = msgspec.json.decode(message.data, type=_Answer)
    except LogError as error:
        raise Failed(f"the log's server did not take the accounts over: {error}") from None
    except msgspec.MsgspecError as error:
        raise Failed(f"the log's server answers {subject} with something else: {error}") from None
    if answer.error is not None:
        raise Failed(f"the log's server refuses the accounts: {answer.error.description}")


async def until_heard(authority: Authority, url: str, cluster: str, creds: Path) -> None:
    """Return once a message of the agent's account arrives at the hub through every server; raises Failed."""
    for one in _servers(url):
        problem = f"the log's server at {one} does not let the agent of {cluster} in: "
        async with opened(one, authority.hub_creds) as hub:
            await letting_in.until_heard(hub, cluster, partial(connect, one, creds), problem.__add__)


def _servers(urls: str) -> list[str]:
    return [part.strip() for part in urls.split(",") if part.strip()]

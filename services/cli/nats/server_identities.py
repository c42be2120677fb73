"""Who may talk to the log of a laptop installation: writes the server's configuration, adds and withdraws agents.

Whether the server has taken a change over is asked of the server: a new agent is let in once a message of its account
arrives at the hub, and a withdrawn one is gone once the server refuses its key.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from schemas.topology import SERVICES
from services._kit.base.private_files import private_text
from services._kit.log.connection import Connection
from services._rules.identity.accounts import HUB, AgentIdentity, accounts_config
from services.cli.common.layout import Installation, Layout, agent_process
from services.cli.common.running import Failed, NotReady
from services.cli.common.waiting import wait_until
from services.cli.nats.login_check import log_in, until_heard, until_refused
from services.cli.nats.nkeys import new_seed, public_key

_TRY_SECONDS: Final = 1.0
_RELOAD_SECONDS: Final = 30.0
_GLOBAL: Final = "$G"


def agents_of(installation: Installation) -> list[AgentIdentity]:
    """Identities of the agents that may connect."""
    return [AgentIdentity(cluster, key) for cluster, key in installation.agents.items()]


def server_config(layout: Layout, installation: Installation) -> Path:
    """Path of the log server's configuration, written again; makes the passwords that the installation lacks."""
    path = layout.data("nats") / "nats.conf"
    for service in SERVICES:
        installation.service_tokens.setdefault(service, secrets.token_urlsafe(24))
        private_text(layout.service_password(service), installation.service_tokens[service])
    installation.system_token = installation.system_token or secrets.token_urlsafe(24)
    private_text(layout.system_password, installation.system_token)
    private_text(layout.hub_password, installation.nats_token)
    if installation.observer_token:
        private_text(layout.observer_password, installation.observer_token)
    private_text(
        path,
        f"""# Written by fleetlog at every start and whenever an agent comes or goes.
listen: "127.0.0.1:{installation.port("nats")}"
http: "127.0.0.1:{installation.port("nats_http")}"
max_payload: 8MB
jetstream {{
  store_dir: "{layout.data("nats")}"
  sync_interval: always
  max_file_store: 64GB
}}
{accounts_config(installation.log_passwords, agents_of(installation))}""",
    )
    return path


def adopt_streams(layout: Layout) -> None:
    """Give the streams of an installation without accounts to the hub's account; the server must not run."""
    store = layout.data("nats") / "jetstream"
    if (store / _GLOBAL).is_dir() and not (store / HUB).exists():
        (store / _GLOBAL).rename(store / HUB)


def prepare_agent(layout: Layout, installation: Installation, cluster: str) -> None:
    """Make sure that an agent has an identity, before the server starts; changes the installation."""
    path = layout.agent_seed(cluster)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        private_text(path, new_seed("user"))
    installation.agents[cluster] = public_key(path.read_text(encoding="utf-8"))


@contextmanager
def changed(layout: Layout) -> Iterator[Installation]:
    """The installation for a change, saved afterwards; one command at a time changes it. Raises Failed without one."""
    with (layout.directory / "run" / "identities.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installation = layout.load()
        if installation is None:
            raise Failed(f"no installation in {layout.directory}")
        yield installation
        layout.save(installation)


async def admit(layout: Layout, cluster: str) -> Path:
    """Give a cluster's agent a new identity that the server accepts; the file with its seed. Raises Failed.

    The file appears last: an agent that waits for it finds the server ready.
    """
    seed = new_seed("user")
    with changed(layout) as installation:
        installation.agents[cluster] = public_key(seed)
        server_config(layout, installation)
    if server_pid(layout):
        await _until_heard(layout, installation, cluster, seed)
    path = layout.agent_seed(cluster)
    private_text(path, seed)
    # One that runs with an earlier identity begins again with this one.
    _end(layout.pid(agent_process(cluster)))
    return path


async def admit_key(layout: Layout, cluster: str, key: str) -> None:
    """Let the agent in whose public key this is, and which keeps the rest to itself; raises Failed."""
    with changed(layout) as installation:
        installation.agents[cluster] = key
        server_config(layout, installation)
    if server_pid(layout):
        # A new account's imports are connected at the reload after the one that brings it.
        for _ in range(2):
            await _reloaded(layout, installation)


async def _reloaded(layout: Layout, installation: Installation) -> None:
    """Make the server read its configuration and wait until it says that it has."""
    url = f"http://127.0.0.1:{installation.port('nats_http')}/varz"
    before = await asyncio.to_thread(_loaded_at, url)
    reload_server(layout)

    async def look() -> str:
        now = await asyncio.to_thread(_loaded_at, url)
        return "" if now and now != before else f"it has not read its configuration; see {layout.log('nats')}"

    try:
        await wait_until("the log's server", look, _RELOAD_SECONDS)
    except NotReady as error:
        raise Failed(str(error)) from None


def _loaded_at(url: str) -> str:
    """When the server last read its configuration; empty where it does not answer."""
    try:
        with urllib.request.urlopen(url, timeout=_TRY_SECONDS) as answer:
            return msgspec.json.decode(answer.read(), type=_Varz).config_load_time
    except (OSError, msgspec.MsgspecError):
        return ""


class _Varz(Struct):
    config_load_time: str = ""


async def withdraw(layout: Layout, cluster: str) -> bool:
    """Take a cluster's agent its identity and wait until the server refuses it; false when it had none."""
    with changed(layout) as installation:
        known = installation.agents.pop(cluster, "")
        path = layout.agent_seed(cluster)
        seed = path.read_text(encoding="utf-8").strip() if path.exists() else ""
        path.unlink(missing_ok=True)
        if not known:
            return False
        server_config(layout, installation)
    if server_pid(layout):
        reload_server(layout)
        if seed:
            await _until_refused(layout, installation, cluster, seed)
    _end(layout.pid(agent_process(cluster)))
    return True


def server_pid(layout: Layout) -> int:
    """Process of the running log server, 0 without one."""
    return _running(layout.pid("nats"))


def reload_server(layout: Layout) -> None:
    """Make the server read its configuration again; one that does not run reads it when it starts."""
    pid = server_pid(layout)
    if pid:
        os.kill(pid, signal.SIGHUP)


def _running(path: Path) -> int:
    try:
        pid = int(path.read_text(encoding="utf-8"))
        os.kill(pid, 0)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return 0
    return pid


def _end(path: Path) -> None:
    """End an agent whose identity is gone; the supervisor starts it again once there is one."""
    pid = _running(path)
    if pid:
        os.kill(pid, signal.SIGTERM)


async def connect_agent(url: str, seed: str) -> Connection | str:
    """A connection with an agent's identity, or why there is none."""
    return await log_in(url, "fleetlog/identity", _TRY_SECONDS, nkeys_seed_str=seed)


async def _until_heard(layout: Layout, installation: Installation, cluster: str, seed: str) -> None:
    """Reload the server until a message of the agent's account arrives in the hub's.

    The server connects a new account's imports at the reload after the one that brought the account.
    """
    problem = f"the log's server does not let the agent of {cluster} in; see {layout.log('nats')}"
    login = partial(connect_agent, installation.log_url, seed)
    hub = await Connection.open(installation.log_access, name="fleetlog/identity", **installation.log_options)
    try:
        await until_heard(hub, cluster, login, lambda _: problem, partial(reload_server, layout))
    finally:
        await hub.close()


async def _until_refused(layout: Layout, installation: Installation, cluster: str, seed: str) -> None:
    problem = f"the log's server does not refuse the agent of {cluster}; see {layout.log('nats')}"
    await until_refused(partial(connect_agent, installation.log_url, seed), problem)

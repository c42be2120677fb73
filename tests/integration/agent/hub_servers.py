"""Log servers with an account for the hub and one per agent, which they are told in their two ways."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from services._kit.base.private_files import private_text
from services._kit.base.settings import credentials
from services._rules.identity.account_tokens import creds_text, user_token
from services._rules.identity.accounts import AgentIdentity, Passwords, accounts_config
from services.cli.nats import account_claims as claims
from services.cli.nats.authority import CONFIG, create
from services.cli.nats.nkeys import new_key, new_seed, public_key
from services.registrar.settings import RegistrarSettings
from tests.natsserver import ProcessServer, find_binary

Users = dict[str, tuple[str, str]]
PASSWORD = 'a "quoted" $word'


def new_user() -> tuple[str, str]:
    """Seed and public key of a new user."""
    seed = new_seed("user")
    return seed, public_key(seed)


class HubServer(ProcessServer):
    """A nats-server whose configuration has an account for the hub and one per agent."""

    hub_settings: Mapping[str, str] = {"nats_user": "hub", "nats_password": PASSWORD}
    """How services log in."""

    def __init__(self, directory: Path) -> None:
        super().__init__(str(find_binary()), directory)
        self._plain = self._config.read_text()
        self.agents: dict[str, AgentIdentity] = {}
        self.allow()

    def allow(self, *agents: AgentIdentity) -> None:
        """Write a configuration with these agents and no others."""
        self.agents = {agent.cluster: agent for agent in agents}
        self._config.write_text(self._plain + accounts_config(Passwords(hub=PASSWORD), agents))

    def reload(self) -> None:
        """Make the running server read its configuration."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGHUP)

    async def prepare(self, users: Users) -> None:
        """Let agents in, before or after the start."""
        self.allow(*(AgentIdentity(name, public) for name, (_, public) in users.items()))

    async def admitted(self, users: Users) -> None:
        """Let agents in after the start, where that is not done before."""

    def agent_settings(self, cluster: str, users: Users) -> dict[str, str]:
        """How an agent logs in."""
        path = self._directory / f"{cluster}.nk"
        path.write_text(users[cluster][0])
        return {"nats_nkey_file": str(path)}

    def identity(self, settings: dict[str, str]) -> dict[str, Any]:
        """What the client takes for an identity in an agent's settings."""
        return credentials(RegistrarSettings(nats_url=self.url, **settings))

    async def revoke(self, cluster: str) -> None:
        """Take an agent's identity back."""
        self.allow(*(agent for name, agent in self.agents.items() if name != cluster))
        self.reload()

    async def allow_again(self, cluster: str, users: Users, returned: Callable[[], Awaitable[Any]]) -> None:
        """Let an agent in that was revoked."""
        self.allow(*self.agents.values(), AgentIdentity(cluster, users[cluster][1]))
        self.reload()
        await returned()
        # The server connects the imports of a new account with the reload after the one it came with.
        self.reload()

    def stranger(self) -> dict[str, str]:
        """The identity of somebody whom nobody let in."""
        path = self._directory / "stranger.nk"
        path.write_text(new_user()[0])
        return {"nats_nkey_file": str(path)}


class JwtHubServer(HubServer):
    """A nats-server that asks for accounts which an operator signed."""

    def __init__(self, directory: Path) -> None:
        ProcessServer.__init__(self, str(find_binary()), directory)
        self.authority = create(directory / "auth", self.url, directory / "resolver")
        self._config.write_text(self._config.read_text() + (directory / "auth" / CONFIG).read_text())
        self.hub_settings = {"nats_creds": str(self.authority.hub_creds)}

    async def prepare(self, users: Users) -> None:
        """Nobody can be let in before the start."""

    async def admitted(self, users: Users) -> None:
        """Hand over signed accounts."""
        for cluster, (seed, public) in users.items():
            await self._admit(cluster, seed, public)

    async def _admit(self, cluster: str, seed: str, public: str) -> None:
        token = await claims.admit(self.authority, self.url, cluster, public)
        private_text(self._creds(cluster), creds_text(token, seed))

    def _creds(self, cluster: str) -> Path:
        return self._directory / f"{cluster}.creds"

    def agent_settings(self, cluster: str, users: Users) -> dict[str, str]:
        """How an agent logs in."""
        return {"nats_creds": str(self._creds(cluster))}

    async def revoke(self, cluster: str) -> None:
        """Revoke, and delete the account."""
        assert await claims.expel(self.authority, self.url, cluster)

    async def allow_again(self, cluster: str, users: Users, returned: Callable[[], Awaitable[Any]]) -> None:
        """Sign another account, and put the new credentials where the old ones were."""
        await self._admit(cluster, *users[cluster])
        await returned()

    def stranger(self) -> dict[str, str]:
        """A user of an account that no operator signed."""
        (seed, public), account = new_user(), new_key("account")
        private_text(self._creds("stranger"), creds_text(user_token(account, public, "me", at=1), seed))
        return {"nats_creds": str(self._creds("stranger"))}


SIGNED = pytest.mark.parametrize("accounts", [JwtHubServer], ids=["signed"])
"""Accounts that an operator signs."""
CONFIGURED_AND_SIGNED = pytest.mark.parametrize("accounts", [HubServer, JwtHubServer], ids=["configured", "signed"])
"""Accounts in the server's configuration, and accounts that an operator signs."""

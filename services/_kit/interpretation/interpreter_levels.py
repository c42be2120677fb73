"""All interpreter levels of one service, configured from the log.

The levels: scripts of users, webhooks, scripts that come with the product, what is built in.
"""

from __future__ import annotations

from schemas.events.policy import PolicyEvent
from services._kit.interpretation.lua.interpreting import Interpreting, ScriptLevel
from services._kit.interpretation.lua.pool import LuaPool
from services._kit.interpretation.webhook_client import WebhookLevel
from services._kit.kube.client import KubeClient
from services._rules.interpreter.configuration import WEBHOOKS, Configured, Target
from services._rules.interpreter.scripts.bundled import Shipped


class Interpreters:
    """What a service asks about objects; processes for scripts start with the first call."""

    def __init__(self, pool: LuaPool | None = None) -> None:
        self.configured = Configured()
        self._pool = pool or LuaPool()
        self._scripts = ScriptLevel(self._pool)
        self._webhooks = WebhookLevel()
        self.ask = Interpreting((self._scripts, self._webhooks, ScriptLevel(self._pool, Shipped())))
        """Answers, level by level (reference 03 §5.2)."""

    def reach_services(self, client: KubeClient) -> None:
        """Find webhooks that are Services through this control plane; else by their names within the cluster."""
        self._webhooks.reach_services(client)

    def take(self, event: PolicyEvent) -> frozenset[Target]:
        """Take in a fact about a policy; the kinds that are interpreted in another way from now on."""
        touched = self.configured.take(event)
        if touched and event.key.kind == WEBHOOKS:
            self._webhooks.replace(self.configured.webhooks)
        elif touched:
            self._scripts.replace(self.configured.customizations)
        return touched

    async def close(self) -> None:
        """End the processes for scripts and close the connections to webhooks; calls that wait fail."""
        await self._pool.close()
        await self._webhooks.close()

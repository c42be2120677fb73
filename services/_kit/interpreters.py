"""All levels of interpretation of one service, fed with what users configured: scripts before what is built in."""

from __future__ import annotations

from schemas.events.policy import PolicyEvent
from services._kit.lua.interpreting import Interpreting, ScriptLevel
from services._kit.lua.pool import LuaPool
from services._rules.interpreter.configured import Configured, Target


class Interpreters:
    """What a service asks about objects; processes for scripts start with the first call."""

    def __init__(self, pool: LuaPool | None = None) -> None:
        self.configured = Configured()
        self._pool = pool or LuaPool()
        self._scripts = ScriptLevel(self._pool)
        self.ask = Interpreting((self._scripts,))
        """Answers, level by level (reference 03 §5.2)."""

    def take(self, event: PolicyEvent) -> frozenset[Target]:
        """Take in a fact about a policy; the kinds that are interpreted in another way from now on."""
        touched = self.configured.take(event)
        if touched:
            self._scripts.replace(self.configured.customizations)
        return touched

    async def close(self) -> None:
        """End the processes for scripts; calls that wait fail with WorkerUnavailable."""
        await self._pool.close()

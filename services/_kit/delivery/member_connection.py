"""Keeps the cluster of a lane reachable: connects, and after trouble asks until it answers again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from services._kit.base.log_errors import LogError
from services._kit.base.pacing import Backoff
from services._kit.concurrency.supervision import Supervised, supervise
from services._kit.concurrency.tasks import set_within
from services._kit.identity.member_gate import MemberGate
from services._kit.kube.client import ApiError, BadAnswer, KubeClient, Unreachable

log = structlog.get_logger("delivery.lane")

FIRST_PAUSE: Final = 0.1
STEADY_SECONDS: Final = 5.0
"""How long a cluster has to answer, in seconds, before its next trouble counts as a new one."""
QUIET_SECONDS: Final = 3.0
"""How long a cluster gives usable answers before it is listed again."""
WARM_SECONDS: Final = 45.0
"""How long a cluster is left unasked at most, in seconds: idle connections are closed after 60 s or more."""
LONGEST_SECONDS: Final = 60.0
"""After which it is listed again although some answers still cannot be used."""


class RelistTrigger:
    """Tracks unusable answers of a cluster: its other answers of that time may be wrong, even if they were plausible.

    `check` is called once it has given none for a while, or has given them for long; it answers whether the cluster was
    reachable, and is called again soon if it was not.
    """

    def __init__(self, check: Callable[[], bool]) -> None:
        self._check = check
        self._since = 0.0
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def bad_answer(self) -> None:
        """The cluster answered what cannot be used."""
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if self._timer is None:
            self._since = self._last
            self._timer = loop.call_later(QUIET_SECONDS, self._look)

    def close(self) -> None:
        """Call nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = min(self._last + QUIET_SECONDS, self._since + LONGEST_SECONDS)
        if now < due:
            self._timer = loop.call_later(due - now, self._look)
        elif self._check():
            self._timer = None
        else:
            self._timer = loop.call_later(QUIET_SECONDS, self._look)


class MemberConnection:
    """The client of one cluster and whether it answers.

    `opened` is called with a new client and its gate, `relist` when what the cluster said may be wrong. `identity` is
    the uid of the member's namespace kube-system, empty while it is not known.
    """

    def __init__(
        self,
        cluster: str,
        open_client: Callable[[], Awaitable[KubeClient]],
        identity: Callable[[], str],
        opened: Callable[[KubeClient, MemberGate], None],
        relist: Callable[[], None],
        longest_pause: float,
    ) -> None:
        self.trouble = ""
        """Why nothing gets through at the moment; empty when the cluster answers."""
        self.interruptions = 0
        """How often the cluster stopped answering."""
        self.up = asyncio.Event()
        self.client: KubeClient | None = None
        self._cluster = cluster
        self._open_client = open_client
        self._identity = identity
        self._opened = opened
        self._relist = relist
        self._backoff = Backoff(FIRST_PAUSE, longest_pause, (0.75, 1.25))
        self._failures = 0
        self._down = asyncio.Event()
        self._gate: MemberGate | None = None
        self._task: Supervised | None = None
        self._suspicion = RelistTrigger(self._list_again)
        self._again = asyncio.Event()
        """Set when a cluster that does not answer may do so now."""

    def start(self) -> None:
        """Connect, and keep the connection until closed."""
        self._task = supervise(f"lane:{self._cluster}", self._run)

    def cancel(self) -> None:
        """Stop without waiting."""
        if self._task is not None:
            self._task.cancel()
        self._suspicion.close()

    async def close(self) -> None:
        """Stop, and close the client."""
        if self._task is not None:
            await self._task.close()
        if self.client is not None:
            await self.client.close()

    def retry(self) -> None:
        """Try to reach the cluster now, should it not answer: how it is reached is something else from now on."""
        self._again.set()

    def failed(self, error: Exception) -> None:
        """A request concerned the cluster as a whole and failed: send nothing until it answers again."""
        if isinstance(error, BadAnswer):
            self._suspicion.bad_answer()
        if self.up.is_set():
            self.interruptions += 1
            self.trouble = str(error)
            log.warning("cluster_unreachable", cluster=self._cluster, error=str(error))
            self.up.clear()
            self._down.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._failures = 0
        while True:
            # What changes from here on may be too late for this attempt.
            self._again.clear()
            try:
                await self._reach()
            except (ApiError, Unreachable, LogError, OSError, ValueError) as error:
                self._tell(str(error))
                await self._rest()
                continue
            except Exception as error:
                # The owner of this task logs it and calls it again; this cluster alone waits for that.
                self._tell(f"{type(error).__name__}: {error}"[:500])
                self.up.clear()
                raise
            if self.trouble:
                log.info("cluster_reachable", cluster=self._cluster)
            self.trouble = ""
            began = loop.time()
            self._down.clear()
            self.up.set()
            await self._keep_warm()
            if loop.time() - began > STEADY_SECONDS:
                self._failures = 0
            else:
                # One that answers this question and refuses all others is not asked without a break.
                await self._rest()

    async def _reach(self) -> None:
        """Ask the cluster something, through a new client where there is none."""
        if self.client is None:
            client = await self._open_client()
            suspect = self._suspicion.bad_answer
            self._gate = MemberGate(client, self._cluster, self._identity, self.failed, suspect)
            self._opened(client, self._gate)
            self.client = client
        await self.client.request("GET", "/version", timeout=5.0)
        await self.vouch()

    async def _keep_warm(self) -> None:
        """Return once the cluster does not answer; until then it is asked before its connection is closed as idle.

        The next write needs no handshake then, and a connection that leads nowhere any more is noticed before it.
        """
        # Those of a start are not asked all at once.
        period = WARM_SECONDS * random.uniform(0.75, 1.0)
        pause = period
        while not await set_within(self._down, pause):
            client = self.client
            assert client is not None
            pause = period - (time.monotonic() - client.used)
            if pause > 0:
                continue
            pause = period
            try:
                await client.request("GET", "/version", timeout=5.0)
            except ApiError:
                # It answers: what it refuses concerns no object.
                continue
            except Unreachable as error:
                self.failed(error)

    async def vouch(self) -> None:
        """Verify that the cluster is the member; raises Stranger and Unreachable."""
        if self._gate is not None:
            await self._gate.vouch()

    async def _rest(self) -> None:
        """Wait until there is reason to ask again, at most for a pause that grows with every failure in a row."""
        self._failures += 1
        if await set_within(self._again, self._backoff.pause(self._failures)):
            self._failures = 0

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("cluster_unreachable", cluster=self._cluster, error=trouble)
        self.trouble = trouble

    def _list_again(self) -> bool:
        """Compare everything that the cluster was given with what it holds, once it answers; whether it does."""
        if not self.up.is_set():
            return False
        log.info("cluster_listed_again", cluster=self._cluster)
        self._relist()
        return True

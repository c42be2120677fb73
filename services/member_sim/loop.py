"""The reconcile loop of one member: watches mark keys dirty, each is decided once a round, writes run side by side."""

import asyncio
import heapq
import random
from collections.abc import Callable, Iterable
from functools import lru_cache, partial

import structlog

from services._kit.concurrency.supervision import spawn, supervise
from services._kit.concurrency.tasks import child, end
from services.member_sim.controllers.node import initial_nodes
from services.member_sim.decide import decide
from services.member_sim.member_port import Api, Expired, Refused, WriteOutcome
from services.member_sim.metrics import DECISIONS, REFUSALS, WRITES
from services.member_sim.world.pod_reading import NAME_LETTERS
from services.member_sim.world.world_model import (
    KINDS,
    NAMESPACES,
    NODES,
    PODS,
    Config,
    Decision,
    Key,
    Reservations,
    Turn,
    Write,
    key_of,
)
from services.member_sim.world.world_state import State

log = structlog.get_logger(__name__)

_SLICE = 64
"""Keys decided before the event loop gets a turn, so that requests are answered in between."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 5.0
_written = lru_cache(maxsize=16)(WRITES.labels)
_QUIET = frozenset(("Conflict", "AlreadyExists", "NotFound"))


class Letters:
    """Random name suffixes."""

    def suffix(self) -> str:
        """Return five letters or digits that are safe in a name."""
        return "".join(random.choices(NAME_LETTERS, k=5))


class Loop:
    """Simulates one cluster over an API port until it is stopped; `decide` is what its controllers do about a key."""

    def __init__(
        self,
        api: Api,
        config: Config,
        now: Callable[[], float],
        state: State | None = None,
        decide: Callable[[State, Key, Turn], Decision] = decide,
    ) -> None:
        self.state = state or State()
        self._decision = decide
        self.config = config
        self.loaded = asyncio.Event()
        self._api = api
        self._now = now
        self._ids = Letters()
        self._reserved = Reservations()
        self._dirty: dict[Key, None] = {}
        self._busy: set[Key] = set()
        self._pauses: dict[Key, float] = {}
        self._timers: list[tuple[float, Key]] = []
        self._due: dict[Key, float] = {}
        self._wake = asyncio.Event()
        self._rest = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    def mark(self, keys: Iterable[Key]) -> None:
        """Have keys decided in the next round."""
        dirty = self._dirty
        for key in keys:
            dirty[key] = None
        if dirty:
            self._wake.set()

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be decided or written at this moment."""
        return not self._dirty and not self._busy

    async def settled(self) -> None:
        """Wait until the member is loaded and nothing is left to decide or write, as once after a start."""
        await self.loaded.wait()
        while not self.idle:
            self._rest.clear()
            await self._rest.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Load, then decide and write until ``stop`` is set; pending writes are let finish."""
        revisions = {NAMESPACES: await self._load(NAMESPACES)}
        for resource in KINDS:
            if resource != NAMESPACES:
                revisions[resource] = await self._load(resource)
        self.mark(initial_nodes(self.state, self.config))
        watches = [
            supervise(f"watch:{resource}", partial(self._follow, resource, revisions[resource])) for resource in KINDS
        ]
        stopper = child(self._stopped(stop))
        self.loaded.set()
        try:
            while not stop.is_set():
                await self._wake.wait()
                self._wake.clear()
                # Everything that became known in this moment belongs to the same round.
                await asyncio.sleep(0)
                await self._round()
                if self.idle:
                    self._rest.set()
        finally:
            await end(*(watch.task for watch in watches), stopper)
            if self._alarm is not None:
                self._alarm.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=5)

    async def _stopped(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    async def _load(self, resource: str) -> str:
        found, revision = await self._api.read(resource)
        present = {key_of(resource, manifest) for manifest in found}
        now = self._now()
        for gone in [m for m in self.state.all_of(resource) if key_of(resource, m) not in present]:
            self.mark(self.state.remove(resource, gone))
        for manifest in found:
            self.mark(self.state.apply(resource, manifest, now))
        return revision

    async def _follow(self, resource: str, revision: str) -> None:
        while True:
            try:
                async for manifest, gone in self._api.watch(resource, revision):
                    if gone:
                        self._removed(resource, self.state.remove(resource, manifest), manifest["metadata"]["name"])
                    else:
                        self.mark(self.state.apply(resource, manifest, self._now()))
            except Expired:
                log.info("history is gone, listing again", resource=resource)
            except Exception:
                log.exception("a watch broke, listing again", resource=resource)
                await asyncio.sleep(1)
            revision = await self._load(resource)

    def _removed(self, resource: str, dirty: list[Key], name: str) -> None:
        if resource == NODES:
            # A simulated node that a client deleted registers again, as a kubelet would.
            dirty.append(Key(NODES, "", name))
        self.mark(dirty)

    async def _round(self) -> None:
        now = self._now()
        while self._timers and self._timers[0][0] <= now:
            at, key = heapq.heappop(self._timers)
            if self._due.get(key) == at:
                del self._due[key]
                self._dirty[key] = None
        batch, self._dirty = self._dirty, {}
        turn = Turn(now, self._ids, self._reserved, self.config)
        for number, key in enumerate(batch):
            if key in self._busy:
                self._dirty[key] = None
                continue
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            self._decide(key, turn)
        self._set_alarm()

    def _decide(self, key: Key, turn: Turn) -> None:
        try:
            decision = self._decision(self.state, key, turn)
        except Exception:
            log.exception("an object cannot be decided", resource=key.resource, namespace=key.namespace, name=key.name)
            self._again_later(key)
            return
        DECISIONS.inc()
        if decision.wake is not None:
            self._at(decision.wake, key)
        if decision.writes:
            self._busy.add(key)
            task = spawn("write", self._write(key, decision.writes))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._pauses.pop(key, None)

    async def _write(self, key: Key, writes: list[Write]) -> None:
        """Carry out one decision: writes to the same object in order, all others side by side."""
        lanes: dict[Key, list[Write]] = {}
        for write in writes:
            lanes.setdefault(write.key, []).append(write)
        try:
            if len(lanes) == 1:
                done = [await self._lane(writes)]
            else:
                done = await asyncio.gather(*(self._lane(lane) for lane in lanes.values()))
        finally:
            self._busy.discard(key)
            # With nothing left a round follows all the same: it wakes callers that wait for the loop to be idle.
            if key in self._dirty or not self._busy:
                self._wake.set()
        if all(done):
            self._pauses.pop(key, None)
        else:
            self._again_later(key)

    async def _lane(self, writes: list[Write]) -> bool:
        for write in writes:
            try:
                outcome = await self._api.perform(write)
            except Refused as refusal:
                REFUSALS.labels(refusal.reason).inc()
                if refusal.reason not in _QUIET:
                    log.warning(
                        "a write was refused",
                        operation=write.op,
                        resource=write.key.resource,
                        namespace=write.key.namespace,
                        name=write.key.name,
                        reason=refusal.reason,
                        message=str(refusal),
                    )
                return refusal.reason == "NotFound" and write.op == "delete"
            except Exception:
                log.exception("a write failed", resource=write.key.resource, name=write.key.name)
                return False
            else:
                _written(write.op).inc()
                self._took(write, outcome)
            finally:
                if write.key.resource == PODS:
                    self._reserved.release(write.key)
        return True

    def _took(self, write: Write, outcome: WriteOutcome) -> None:
        """Take the answer in at once, so that the next round need not wait for the watch."""
        key = write.key
        if outcome.gone:
            self._removed(key.resource, self.state.removed_by_us(key, write.uid), key.name)
        elif outcome.manifest is not None:
            self.mark(self.state.apply(key.resource, outcome.manifest, self._now()))
            if key.resource == PODS and write.op == "status":
                self._reserved.addresses.pop((outcome.manifest.get("status") or {}).get("podIP", ""), None)

    def _again_later(self, key: Key) -> None:
        pause = min(self._pauses.get(key, _FIRST_PAUSE / 2) * 2, _LONGEST_PAUSE)
        self._pauses[key] = pause
        self._at(self._now() + pause, key)
        self._set_alarm()

    def _at(self, when: float, key: Key) -> None:
        planned = self._due.get(key)
        if planned is None or when < planned:
            self._due[key] = when
            heapq.heappush(self._timers, (when, key))

    def _set_alarm(self) -> None:
        """Arm one timer for the next deadline; at most an hour, so that a clock that was set is noticed."""
        first = self._timers[0][0] if self._timers else None
        if self._alarm is not None:
            if first == self._alarm_at:
                return
            self._alarm.cancel()
            self._alarm = None
        if first is not None:
            self._alarm_at = first
            delay = min(max(first - self._now(), 0), 3600)
            self._alarm = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._wake.set()

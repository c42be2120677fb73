"""Brings one cluster to what its works say and reports what it holds; independent of every other cluster.

A lane keeps the keys to look at, works on a bounded number at once, backs off per object, and pauses as a whole while
the cluster does not answer. It never gives up and never deletes without a withdrawn work. A few lines over 400, so that
the whole way of one object through a lane is read in one place.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, Final, assert_never

import msgspec
import structlog
from msgspec import UNSET, Raw, UnsetType

from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from services._kit.delivery.kinds import Kind, Kinds, UnknownKind
from services._kit.delivery.parts import (
    LaneSettings,
    LaneStats,
    Settled,
    WorkSource,
    holders,
    says_the_same,
    summary,
    told,
    uid_of,
)
from services._kit.delivery.reports import LEAVING
from services._kit.errors import LogError
from services._kit.kube import ApiError, KubeClient, Unreachable, decode, encode
from services._rules.delivery import (
    Create,
    Leave,
    Refuse,
    Remove,
    Replace,
    apply_action,
    reflect,
    withdraw_action,
)
from services._rules.interpreter import InterpretError
from services._rules.marking import with_marks
from services._rules.secrecy import is_secret

log = structlog.get_logger("delivery.lane")

Manifest = dict[str, Any]
FAILED: Final = "AppliedFailed"
_CONFLICT_TRIES: Final = 5


class Lane:
    """One cluster's deliveries."""

    def __init__(
        self,
        cluster: str,
        open_client: Callable[[], Awaitable[KubeClient]],
        source: WorkSource,
        settings: LaneSettings,
    ) -> None:
        self.cluster = cluster
        self.stats = LaneStats()
        self.trouble = ""
        """Why nothing gets through at the moment; empty when the cluster answers."""
        self._open_client = open_client
        self._source = source
        self._settings = settings
        self._queue: dict[ObjectKey, None] = {}
        self._running: set[ObjectKey] = set()
        self._settled: dict[ObjectKey, Settled] = {}
        self._again: set[ObjectKey] = set()
        self._failures: dict[ObjectKey, int] = {}
        self._timers: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._work = asyncio.Event()
        self._up = asyncio.Event()
        self._client: KubeClient | None = None
        self._kinds: Kinds | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting_for_kind: dict[tuple[str, str], set[ObjectKey]] = {}
        self._waiting_for_namespace: dict[str, set[ObjectKey]] = {}

    @property
    def backlog(self) -> int:
        """Objects not yet brought in line."""
        return len(self._queue) + len(self._running) + len(self._timers)

    def start(self) -> None:
        """Connect and work until closed."""
        self._tasks = [asyncio.create_task(self._connect())]
        self._tasks += [asyncio.create_task(self._worker()) for _ in range(self._settings.concurrency)]

    async def close(self) -> None:
        """Stop at once; whatever was under way is looked at again after the next start."""
        for task in self._tasks:
            task.cancel()
        for timer in self._timers.values():
            timer.cancel()
        if self._kinds is not None:
            self._kinds.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    def look_at(self, key: ObjectKey) -> None:
        """Bring one object in line as soon as there is room."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
            return
        self._queue[key] = None
        self._work.set()

    def _changed(self, key: ObjectKey) -> None:
        if self._source.work(key) is not None:
            self.look_at(key)

    async def _connect(self) -> None:
        """Keep the cluster reachable: connect, and after trouble ask until it answers again."""
        pause = 0.1
        while True:
            try:
                if self._client is None:
                    self._client = await self._open_client()
                    self._kinds = Kinds(self._client, self._changed)
                await self._client.request("GET", "/version", timeout=5.0)
            except (ApiError, Unreachable, LogError, OSError, ValueError) as error:
                if str(error) != self.trouble:
                    log.warning("cluster_unreachable", cluster=self.cluster, error=str(error))
                self.trouble = str(error)
                await asyncio.sleep(pause * (0.75 + random.random() / 2))
                pause = min(pause * 2, self._settings.longest_pause)
                continue
            if self.trouble:
                log.info("cluster_reachable", cluster=self.cluster)
            self.trouble, pause = "", 0.1
            self._up.set()
            while self._up.is_set():
                await self._down.wait()

    @property
    def _down(self) -> asyncio.Event:
        event = getattr(self, "_down_event", None)
        if event is None or event.is_set():
            event = self._down_event = asyncio.Event()
        return event

    def _went_down(self, error: Exception) -> None:
        if self._up.is_set():
            self.stats.unreachable += 1
            self.trouble = str(error)
            log.warning("cluster_unreachable", cluster=self.cluster, error=str(error))
            self._up.clear()
            self._down.set()

    async def _worker(self) -> None:
        while True:
            await self._up.wait()
            while not self._queue:
                self._work.clear()
                await self._work.wait()
                await self._up.wait()
            key = next(iter(self._queue))
            del self._queue[key]
            self._running.add(key)
            try:
                await self._look(key)
            finally:
                self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.look_at(key)

    async def _look(self, key: ObjectKey) -> None:
        found = self._source.work(key)
        if found is None:
            return
        work, seq = found
        try:
            match work:
                case WorkRendered():
                    await self._deliver(key, work, seq)
                case WorkWithdrawn():
                    self._settled.pop(key, None)
                    await self._withdraw(key, work, seq)
                case _:
                    assert_never(work)
        except Unreachable as error:
            self._went_down(error)
            self._queue[key] = None
            self._work.set()
        except (ApiError, UnknownKind, InterpretError, LogError, ValueError) as error:
            self._failed(key, work, seq, error)
        except Exception as error:
            # A bug concerns one object, not the cluster.
            if is_secret(work.api_version, work.kind):
                # Its words, and those of a traceback, could quote the Secret.
                where = traceback.extract_tb(error.__traceback__)[-1]
                at = f"{where.filename}:{where.lineno}"
                log.error("delivery_failed", cluster=self.cluster, key=str(key), error=told(work, error), at=at)
            else:
                log.exception("delivery_failed", cluster=self.cluster, key=str(key))
            self._failed(key, work, seq, error)
        else:
            self._failures.pop(key, None)

    async def _deliver(self, key: ObjectKey, work: WorkRendered, seq: int) -> None:
        if not work.digest:
            self._report(key, work, seq, reason=FAILED, message=work.problem)
            return
        assert self._kinds is not None
        kind = await self._kinds.of(work.api_version, work.kind)
        live = kind.live.get((key.namespace, key.name))
        operation = ""
        if not work.suspended and not self._in_line(key, seq, live):
            data = work.manifest if not isinstance(work.manifest, UnsetType) else await self._source.blob(work.digest)
            before = await self._source.previous(key, work) if live is not None else None
            # What went to several clusters alike lacks this one's marks.
            previous = with_marks(decode(before), self.cluster, key, work.uid) if before is not None else None
            desired = with_marks(decode(data), self.cluster, key, work.uid) if work.shared else decode(data)
            live, operation, refusal = await self._bring(kind, key, desired, live, previous)
            if refusal:
                self.stats.failed += 1
                self._report(key, work, seq, reason=FAILED, message=summary(refusal))
                self._retry(key)
                return
            if live is not None:
                self._settled[key] = Settled.of(live, seq)
        if live is not None:
            self._seen(key, work, seq, live, operation)
        if operation:
            self._release(work)

    def _in_line(self, key: ObjectKey, seq: int, live: Manifest | None) -> bool:
        """Whether an object has only changed its status since it was last compared with this work."""
        settled = self._settled.get(key)
        if settled is None or live is None or not settled.generation or settled != Settled.of(live, seq):
            return False
        self.stats.unchanged += 1
        return True

    async def _bring(
        self, kind: Kind, key: ObjectKey, desired: Manifest, live: Manifest | None, previous: Manifest | None
    ) -> tuple[Manifest | None, str, str]:
        """Make the live object what is desired; the object now, what was done, or why it was refused."""
        assert self._client is not None
        for _ in range(_CONFLICT_TRIES):
            action = apply_action(desired, live, self.cluster, previous)
            match action:
                case Leave():
                    self.stats.unchanged += 1
                    return live, "", ""
                case Refuse():
                    return live, "", action.message
                case Create():
                    try:
                        live = await self._client.create(kind.path(key.namespace), encode(action.manifest))
                    except ApiError as error:
                        if error.reason != "AlreadyExists":
                            raise
                        live = await self._read(kind, key)
                        continue
                    self.stats.created += 1
                    kind.written(live)
                    return live, "created", ""
                case Replace():
                    before = (live or {}).get("metadata", {}).get("resourceVersion")
                    try:
                        live = await self._client.update(kind.path(key.namespace, key.name), encode(action.manifest))
                    except ApiError as error:
                        if error.status == 404:
                            live = None
                        elif error.reason == "Conflict":
                            live = await self._read(kind, key)
                        else:
                            raise
                        continue
                    kind.written(live)
                    if live["metadata"].get("resourceVersion") == before:
                        return live, "", ""
                    self.stats.updated += 1
                    return live, "updated", ""
                case Remove():
                    raise AssertionError("a rendered work never removes")
                case _:
                    assert_never(action)
        return live, "", "the object keeps changing under our hands; it is tried again"

    async def _read(self, kind: Kind, key: ObjectKey) -> Manifest | None:
        assert self._client is not None
        try:
            return await self._client.get(kind.path(key.namespace, key.name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _withdraw(self, key: ObjectKey, work: WorkWithdrawn, seq: int) -> None:
        assert self._kinds is not None
        assert self._client is not None
        try:
            kind = await self._kinds.of(work.api_version, work.kind)
        except UnknownKind:
            # A kind that is not served has no objects.
            self._report(key, work, seq, absent=True)
            return
        live = kind.live.get((key.namespace, key.name))
        action = withdraw_action(live, keep=work.keep)
        match action:
            case Remove():
                try:
                    await self._client.delete(
                        kind.path(key.namespace, key.name), propagation="Background", uid=action.uid
                    )
                    self.stats.deleted += 1
                except ApiError as error:
                    if error.status == 404:
                        kind.live.pop((key.namespace, key.name), None)
                        self._report(key, work, seq, absent=True)
                    elif error.reason != "Conflict":
                        raise
                    # A conflict means another object of this name: the watch brings it.
            case Replace():
                answer = await self._client.update(kind.path(key.namespace, key.name), encode(action.manifest))
                kind.live.pop((key.namespace, key.name), None)
                self._report(key, work, seq, absent=True, operation="kept", member_uid=uid_of(answer))
            case Leave():
                if live is None:
                    self._report(key, work, seq, absent=True)
                else:
                    # Only something in the member can let it go; whether it ever does is not for us to wait for.
                    held = ", ".join(holders(live)) or "its grace period"
                    message = f"deleted, and held in the cluster by {held}"
                    self._report(key, work, seq, reason=LEAVING, message=message, member_uid=uid_of(live))
            case Create() | Refuse():
                raise AssertionError("a withdrawn work never creates")
            case _:
                assert_never(action)

    def _seen(self, key: ObjectKey, work: WorkRendered, seq: int, live: Manifest, operation: str) -> None:
        reflection = reflect(live)
        metadata = live["metadata"]
        self._report(
            key,
            work,
            seq,
            applied=True,
            operation=operation,
            health=reflection.health,
            message=reflection.problem,
            status=Raw(msgspec.json.encode(reflection.status)) if reflection.status is not None else UNSET,
            member_uid=str(metadata.get("uid", "")),
            member_generation=int(metadata.get("generation", 0)),
        )

    def _report(self, key: ObjectKey, work: WorkEvent, seq: int, **fields: Any) -> None:
        """Tell what is there, unless the last report says the same."""
        before = self._source.observed(key)
        digest = work.digest if isinstance(work, WorkRendered) else ""
        event = WorkObserved(
            cluster=self.cluster,
            key=key,
            uid=work.uid,
            work_seq=seq,
            digest=digest,
            at=self._source.now(),
            **fields,
        )
        if before is not None and says_the_same(before, event):
            return
        self._source.report(event)

    def _failed(self, key: ObjectKey, work: WorkEvent, seq: int, error: Exception) -> None:
        self.stats.failed += 1
        if isinstance(work, WorkRendered):
            self._report(key, work, seq, reason=FAILED, message=summary(told(work, error)))
            if isinstance(error, UnknownKind):
                self._waiting_for_kind.setdefault((work.api_version, work.kind), set()).add(key)
            elif isinstance(error, ApiError) and error.status == 404 and key.namespace:
                self._waiting_for_namespace.setdefault(key.namespace, set()).add(key)
        after = error.retry_after if isinstance(error, ApiError) else 0.0
        self._retry(key, at_least=after)

    def _retry(self, key: ObjectKey, at_least: float = 0.0) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = min(self._settings.backoff * 2.0 ** min(failures - 1, 12), self._settings.longest_backoff)
        pause = max(pause * (0.75 + random.random() / 2), at_least)
        if key in self._timers:
            return
        self._timers[key] = asyncio.get_running_loop().call_later(pause, self._due, key)

    def _due(self, key: ObjectKey) -> None:
        self._timers.pop(key, None)
        self.look_at(key)

    def _release(self, work: WorkRendered) -> None:
        """A namespace or a definition of a kind was written: what waited for it is tried again at once."""
        if work.kind == "Namespace":
            for key in self._waiting_for_namespace.pop(work.key.name, ()):
                self.look_at(key)
        elif work.kind == "CustomResourceDefinition":
            for keys in self._waiting_for_kind.values():
                for key in keys:
                    # The kind is served a moment later: start over with short pauses.
                    self._failures.pop(key, None)
                    self.look_at(key)
            self._waiting_for_kind.clear()

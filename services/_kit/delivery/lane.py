"""Reconciles one cluster with its works and reports what it holds; independent of every other cluster.

A lane schedules objects (work_scheduler.py), compares and reports, applies differences (applier.py), and pauses as a
whole while the cluster does not answer. It never gives up and never deletes without a withdrawn work.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final, assert_never

import msgspec
import structlog
from msgspec import UNSET, Raw, UnsetType

from schemas.endpoints import ServiceSlice
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.base.log_errors import LogError
from services._kit.base.metrics import ReadCollector
from services._kit.base.pacing import EXACT, Backoff
from services._kit.delivery.applier import Applier, ApplyResult
from services._kit.delivery.concurrency_limiter import ConcurrencyLimiter, LimitedClient
from services._kit.delivery.exported_endpoints import ExportedEndpoints
from services._kit.delivery.interpretation_levels import Interpretation, Offered
from services._kit.delivery.kind_caches import Kinds, UnknownKind
from services._kit.delivery.lane_metrics import WriteMetrics
from services._kit.delivery.lane_parts import (
    LaneSettings,
    LaneStats,
    RepairBackoff,
    Settled,
    WorkSource,
    is_passing,
    reported_failure,
    says_the_same,
    since,
    summary,
)
from services._kit.delivery.member_connection import MemberConnection
from services._kit.delivery.work_scheduler import WorkScheduler
from services._kit.identity.member_gate import MemberGate
from services._kit.kube.client import ApiError, BadAnswer, KubeClient, Unreachable, decode
from services._rules.delivery.apply import Reflection, reflect
from services._rules.delivery.cluster_works import holds
from services._rules.delivery.observations import FAILED
from services._rules.delivery.work_labels import with_work_labels
from services._rules.endpoints.multi_cluster_services import is_marker
from services._rules.endpoints.reported_slices import reports_endpoints
from services._rules.interpreter import InterpretError
from services._rules.secrets.secret_objects import is_secret

log = structlog.get_logger("delivery.lane")

_QUIETLY: Final = 4
"""How often in a row a cluster may report overload, or answer nothing usable, before that is reported as a failure."""
_GONE: Final = Backoff(2.0, 32.0, EXACT)
"""How long a cluster has to show that a deleted object is gone, before the request is repeated."""
_PASSING_SECONDS: Final = 5.0
"""The longest pause after an answer that concerns the cluster rather than the object."""


class Lane:
    """One cluster's deliveries; `interpretation` and `written` are shared by all lanes of a service."""

    def __init__(
        self,
        cluster: str,
        open_client: Callable[[], Awaitable[KubeClient]],
        source: WorkSource,
        settings: LaneSettings,
        interpretation: Interpretation | None = None,
        written: WriteMetrics | None = None,
    ) -> None:
        self.cluster = cluster
        self.stats = LaneStats()
        self._source = source
        self._settings = settings
        self._interpretation = interpretation or Interpretation()
        self._written = written or WriteMetrics(ReadCollector("lane"))
        self._settled: dict[ObjectKey, Settled] = {}
        self.connection = MemberConnection(
            cluster, open_client, source.identity, self._opened, self._relist, settings.longest_pause
        )
        self.pace = ConcurrencyLimiter(settings.concurrency, longest_pause=settings.longest_backoff)
        self._repairs = RepairBackoff(settings.longest_backoff)
        self._silent: set[ObjectKey] = set()
        """Objects whose last request was not answered in time, by a cluster that answers."""
        self._turns = WorkScheduler(self._look, self._is_slow, self.connection.up, settings)
        self._acting: Applier | None = None
        self._exported: ExportedEndpoints | None = None
        self._waiting_for_kind: dict[tuple[str, str], set[ObjectKey]] = {}
        self._waiting_for_namespace: dict[str, set[ObjectKey]] = {}

    @property
    def backlog(self) -> int:
        """Objects not yet brought in line."""
        return self._turns.backlog

    @property
    def trouble(self) -> str:
        """Why nothing gets through at the moment; empty when the cluster answers."""
        return self.connection.trouble

    def start(self) -> None:
        """Connect and work until closed."""
        self.connection.start()
        self._turns.start()

    async def close(self) -> None:
        """Stop at once; objects under way are reconciled again after the next start."""
        self.connection.cancel()
        if self._acting is not None:
            self._acting.kinds.close()
        if self._exported is not None:
            self._exported.close()
        await self._turns.close()
        self.pace.close()
        await self.connection.close()

    def look_at(self, key: ObjectKey) -> None:
        """Bring one object in line as soon as there is room."""
        self._turns.look_at(key)

    def look_afresh(self, key: ObjectKey) -> None:
        """The same after a change of what made it fail, perhaps: from here on its pauses are short again."""
        self._turns.forgive(key)
        self._turns.look_at(key)

    def _is_slow(self, key: ObjectKey) -> bool:
        """Whether reconciling an object waits for answers from other processes."""
        found = self._source.work(key)
        if found is None or not isinstance(found[0], WorkRendered):
            return False
        return self._interpretation.offered(found[0].api_version, found[0].kind).anything

    def _is_given(self, key: ObjectKey) -> bool:
        return self._source.work(key) is not None

    def _changed(self, key: ObjectKey) -> None:
        if self._source.work(key) is not None:
            self.look_at(key)

    def _opened(self, client: KubeClient, gate: MemberGate) -> None:
        kinds = Kinds(client, self._changed, self._is_given, gate)
        limited = LimitedClient(client, self.pace)
        self._acting = Applier(self.cluster, limited, kinds, self.stats, self._interpretation, self._written)
        self._exported = ExportedEndpoints(client, self._changed, gate)

    def _relist(self) -> None:
        if self._acting is not None:
            self._acting.kinds.list_again()
        if self._exported is not None:
            self._exported.list_again()

    async def _look(self, key: ObjectKey) -> None:
        found = self._source.work(key)
        if found is None:
            return
        work, seq = found
        done = True
        try:
            match work:
                case WorkRendered():
                    done = await self._deliver(key, work, seq)
                case WorkWithdrawn():
                    self._settled.pop(key, None)
                    if self._exported is not None:
                        self._exported.leave(key)
                    done = await self._withdraw(key, work, seq)
                case _:
                    assert_never(work)
        except BadAnswer as error:
            # Perhaps the cluster answers everything like that, perhaps only what concerns this object.
            self.connection.failed(error)
            self._failed(key, work, seq, error)
        except Unreachable as error:
            self.connection.failed(error)
            if isinstance(error.__cause__, TimeoutError) and key in self._silent:
                # The cluster answered in between: it is this object that gets no answer.
                self._failed(key, work, seq, error)
            else:
                self._turns.look_at(key)
            if isinstance(error.__cause__, TimeoutError):
                self._silent.add(key)
        except (ApiError, UnknownKind, InterpretError, LogError, ValueError) as error:
            if isinstance(error, ApiError) and error.status == 401:
                # That concerns all objects alike: no other answer comes until the credentials are others.
                self.connection.failed(error)
                self._turns.look_at(key)
                return
            self._failed(key, work, seq, error)
        except Exception as error:
            # A bug concerns one object, not the cluster.
            if is_secret(work.api_version, work.kind):
                # Its words, and those of a traceback, could quote the Secret.
                where = traceback.extract_tb(error.__traceback__)[-1]
                at = f"{where.filename}:{where.lineno}"
                log.error(
                    "delivery_failed", cluster=self.cluster, key=str(key), error=reported_failure(work, error), at=at
                )
            else:
                log.exception("delivery_failed", cluster=self.cluster, key=str(key))
            self._failed(key, work, seq, error)
        else:
            self._silent.discard(key)
            if done:
                self._turns.forgive(key)
            elif isinstance(work, WorkWithdrawn):
                # Counted from the failures before this one, at most half a minute by what it takes to forget them.
                pause = _GONE.pause(self._turns.failures(key) + 1)
                self._turns.retry(key, at_least=min(pause, self._settings.longest_backoff))
            else:
                self._turns.retry(key)

    async def _deliver(self, key: ObjectKey, work: WorkRendered, seq: int) -> bool:
        """Bring an object in line and report; false when it has to be tried again."""
        if not work.digest:
            self._report(key, work, seq, reason=FAILED, message=work.problem)
            return True
        if is_marker(key):
            return self._ask_for_endpoints(key, work, seq)
        assert self._acting is not None
        kind = await self._acting.kinds.of(work.api_version, work.kind)
        live = await self._acting.live(kind, key)
        offered = self._interpretation.offered(work.api_version, work.kind)
        brought = ApplyResult(live)
        if not work.suspended and not self._in_line(key, seq, offered, live) and not self._rests(key, work, seq):
            data = work.manifest if not isinstance(work.manifest, UnsetType) else await self._source.blob(work.digest)
            before = await self._source.previous(key, work) if live is not None else None
            # What went to several clusters alike lacks this one's marks.
            previous = with_work_labels(decode(before), self.cluster, key, work.uid) if before is not None else None
            desired = with_work_labels(decode(data), self.cluster, key, work.uid) if work.shared else decode(data)
            held = self._held(key, work, seq) and not self._interpretation_changed(key, offered)
            brought = await self._acting.bring(kind, key, desired, live, previous, offered, held=held)
            if brought.refusal:
                self.stats.failed += 1
                self._report(key, work, seq, reason=FAILED, message=summary(brought.refusal))
                return False
            live = brought.live
            if brought.drift:
                self.stats.repaired += 1
                self._repairs.repaired(key, asyncio.get_running_loop().time())
            if live is not None:
                self._settled[key] = Settled.of(live, seq, offered.since)
        if brought.operation:
            self._release(work)
        if live is None:
            return True
        if offered.status or offered.health:
            reflection = await self._interpretation.reflect(live, offered, self.cluster)
        else:
            reflection = reflect(live)
        self._seen(key, work, seq, live, brought, reflection)
        return not reflection.passing

    def _ask_for_endpoints(self, key: ObjectKey, work: WorkRendered, seq: int) -> bool:
        """Report the endpoints that a marker asks for; it is never applied."""
        endpoints, unlisted = self._endpoints(key, work)
        if unlisted or not isinstance(endpoints, UnsetType):
            self._report(key, work, seq, message=unlisted, endpoints=endpoints)
        return True

    def _in_line(self, key: ObjectKey, seq: int, offered: Offered, live: Manifest | None) -> bool:
        """Whether an object has only changed its status since it was last compared with this work."""
        settled = self._settled.get(key)
        if settled is None or live is None or not settled.generation or settled != Settled.of(live, seq, offered.since):
            return False
        self.stats.unchanged += 1
        return True

    def _held(self, key: ObjectKey, work: WorkRendered, seq: int) -> bool:
        """Whether the cluster was said to hold just this manifest: what differs now was changed there."""
        seen = self._source.observed(key)
        if seen is None or seen.uid != work.uid or not holds(work, seen):
            return False
        settled = self._settled.get(key)
        return seen.work_seq == seq or (settled is not None and settled.seq == seq)

    def _interpretation_changed(self, key: ObjectKey, offered: Offered) -> bool:
        """Whether a difference may come from a changed interpretation of the kind, without a write in the member."""
        settled = self._settled.get(key)
        return settled is not None and settled.interpreted != offered.since

    def _rests(self, key: ObjectKey, work: WorkRendered, seq: int) -> bool:
        """Whether an object was repaired so often of late that it is left as it is for a while."""
        pause = self._repairs.wait(key, asyncio.get_running_loop().time())
        if not pause or not self._held(key, work, seq):
            return False
        self._turns.retry(key, at_least=pause)
        return True

    async def _withdraw(self, key: ObjectKey, work: WorkWithdrawn, seq: int) -> bool:
        """Have an object deleted and report; false until it is seen that it is gone, or is being deleted."""
        if is_marker(key):
            # No member ever held it.
            self._report(key, work, seq, absent=True)
            return True
        assert self._acting is not None
        try:
            kind = await self._acting.kinds.of(work.api_version, work.kind)
        except UnknownKind:
            # A kind that is not served has no objects, if it was the member that said so.
            await self.connection.vouch()
            self._report(key, work, seq, absent=True)
            return True
        # A process that starts with an older work would create the object again.
        await self._source.keep(key)
        ended = await self._acting.withdraw(kind, key, keep=work.keep)
        if ended is None:
            return False
        self._report(key, work, seq, **msgspec.structs.asdict(ended))
        return True

    def _seen(
        self, key: ObjectKey, work: WorkRendered, seq: int, live: Manifest, brought: ApplyResult, reflection: Reflection
    ) -> None:
        metadata = live["metadata"]
        status: Raw | UnsetType = UNSET
        if reflection.unread:
            before = self._source.observed(key)
            if before is not None and before.uid == work.uid:
                status = before.status
        elif isinstance(reflection.status, Raw):
            status = reflection.status
        elif reflection.status is not None:
            status = Raw(msgspec.json.encode(reflection.status))
        endpoints, unlisted = self._endpoints(key, work)
        self._report(
            key,
            work,
            seq,
            applied=True,
            operation=brought.operation,
            drift=brought.drift,
            health=reflection.health,
            message=reflection.problem or unlisted,
            status=status,
            endpoints=endpoints,
            member_uid=str(metadata.get("uid", "")),
            member_generation=int(metadata.get("generation", 0)),
        )

    def _endpoints(self, key: ObjectKey, work: WorkRendered) -> tuple[tuple[ServiceSlice, ...] | UnsetType, str]:
        """Endpoints that an object exports and what is wrong with them; those reported last until a list is known."""
        if self._exported is None or not reports_endpoints(key):
            return UNSET, ""
        return self._exported.reported(key, work.uid, self._source.observed(key))

    def _report(self, key: ObjectKey, work: WorkEvent, seq: int, **fields: Any) -> None:
        """Report the observed state, unless the last report equals it."""
        before = self._source.observed(key)
        digest = work.digest if isinstance(work, WorkRendered) else ""
        event = WorkObserved(
            cluster=self.cluster,
            key=key,
            uid=work.uid,
            work_seq=seq,
            digest=digest,
            at=self._source.now(),
            since=since(before, work.uid, bool(fields.get("applied"))),
            **fields,
        )
        if before is not None and says_the_same(before, event):
            return
        self._source.report(event)

    def _failed(self, key: ObjectKey, work: WorkEvent, seq: int, error: Exception) -> None:
        self.stats.failed += 1
        passing = is_passing(error)
        quietly = passing and self._turns.failures(key) < _QUIETLY
        if isinstance(work, WorkRendered) and not quietly:
            self._report(key, work, seq, reason=FAILED, message=summary(reported_failure(work, error)))
            if isinstance(error, UnknownKind):
                self._waiting_for_kind.setdefault((work.api_version, work.kind), set()).add(key)
            elif isinstance(error, ApiError) and error.status == 404 and key.namespace:
                self._waiting_for_namespace.setdefault(key.namespace, set()).add(key)
        elif isinstance(work, WorkWithdrawn) and not passing and not isinstance(error, UnknownKind):
            # The cluster refuses to let go of it: it still holds the copy, and says why.
            self._report(key, work, seq, applied=True, reason=FAILED, message=summary(reported_failure(work, error)))
        after = error.retry_after if isinstance(error, ApiError) else 0.0
        self._turns.retry(key, at_least=after, at_most=_PASSING_SECONDS if passing else inf)

    def _release(self, work: WorkRendered) -> None:
        """A namespace or a definition of a kind was written: what waited for it is tried again at once."""
        if work.kind == "Namespace":
            for key in self._waiting_for_namespace.pop(work.key.name, ()):
                self.look_at(key)
        elif work.kind == "CustomResourceDefinition":
            for keys in self._waiting_for_kind.values():
                for key in keys:
                    # The kind is served a moment later: start over with short pauses.
                    self.look_afresh(key)
            self._waiting_for_kind.clear()

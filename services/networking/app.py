"""Runs the networking service: reports in, facts about endpoints and objects of the control plane out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import structlog

from schemas.codec import Known
from schemas.keys import ObjectKey
from schemas.subjects import object_key, of_kind_in_clusters, split, unescape
from services._kit.base.log_errors import Refused, Unavailable
from services._kit.concurrency.keyed_work import Background
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._kit.kube.event_recorder import EventRecorder
from services._kit.log.stream_port import Message
from services._kit.runtime.service import Context, Decider
from services._rules.constants import (
    DISCOVERY_API,
    EXPORTS,
    IMPORTS,
    MULTI_CLUSTER_SERVICES,
    MULTICLUSTER_GROUP,
    NETWORKING_GROUP,
)
from services._rules.decision import NOTHING, Decision
from services._rules.endpoints.dispatched_slices import is_slice
from services._rules.kubernetes.event_objects import Note, note_about
from services.networking.decide import COMPONENT, decide
from services.networking.derived_writes import Busy, ControlWrites, Taken, Write
from services.networking.ingress_decision import decide_ingress
from services.networking.ingresses.ingress_objects import IngressName, ShowRoutes
from services.networking.metrics import register
from services.networking.object_view import ControlView, Key
from services.networking.service_objects import (
    SERVICES,
    SLICES,
    DropService,
    DropSlice,
    PutService,
    PutSlice,
    ReadManifest,
    ShowAddresses,
    ShowStatus,
    Tell,
    TellOf,
    involved,
)
from services.networking.settings import NetworkingSettings
from services.networking.state import NetworkingState, ServiceName, fold

log = structlog.get_logger("networking")

Place = tuple[Key, str, str]
"""What is written: a Service or ingress, the kind of the write, and the name of the object where there are several."""


_OF_SHARED = (
    "policy.MultiClusterService.>",
    of_kind_in_clusters("binding", SERVICES, ""),
    of_kind_in_clusters("rollup", SERVICES, ""),
    of_kind_in_clusters("work", MULTI_CLUSTER_SERVICES, NETWORKING_GROUP),
    of_kind_in_clusters("observed", MULTI_CLUSTER_SERVICES, NETWORKING_GROUP),
    of_kind_in_clusters("observed", SLICES, DISCOVERY_API.partition("/")[0]),
)
"""What MultiClusterServices are decided from."""
_REMEMBERED = 10_000
"""MultiClusterServices of which it is remembered what was told last."""
_OF_ONE_SERVICE = frozenset({"binding", "observed", "policy", "rollup", "work"})


class Networking(Decider[NetworkingState, Key]):
    """Endpoints of exporting clusters in, EndpointSlices and derived Services out."""

    name = "networking"
    filters = (
        "cluster.*",
        "endpoints.>",
        "eviction.>",
        "placement.>",
        "template.>",
        of_kind_in_clusters("work", EXPORTS, MULTICLUSTER_GROUP),
        of_kind_in_clusters("observed", EXPORTS, MULTICLUSTER_GROUP),
        *_OF_SHARED,
        of_kind_in_clusters("work", SERVICES, ""),
    )
    states = NetworkingState
    _control: KubeClient
    _recorder: EventRecorder

    def __init__(self, settings: NetworkingSettings) -> None:
        self._settings = settings
        self._view: ControlView | None = None
        self._writes: ControlWrites | None = None
        self._queue = _queue()
        self._written = 0
        self._told: dict[ObjectKey, tuple[Note, ...]] = {}
        """Events that the last decision about each MultiClusterService asked for."""

    def fold(self, state: NetworkingState, message: Message, event: Known) -> Iterable[Key]:
        """Apply one event; the MultiClusterIngresses that lead to a Service may be decided otherwise with it."""
        names = list(fold(state, message.seq, message.subject, event))
        moved = state.backends.take(event)
        if self._view is None:
            return names
        return [*names, *self._view.ingresses.leading_to([*moved, *((each.namespace, each.name) for each in names)])]

    def unreadable(self, state: NetworkingState, message: Message) -> Iterable[Key]:
        """The Service that a newer version wrote about; of a slice it is not known."""
        aggregate, tokens = split(message.subject)
        if aggregate not in _OF_ONE_SERVICE or (aggregate == "observed" and is_slice(object_key(message.subject))):
            # What a newer version says of a workload is not known: its pods are taken for those that stay.
            return ()
        return (ServiceName(unescape(tokens[-2]), unescape(tokens[-1])),)

    def recover(self, state: NetworkingState) -> Iterable[Key]:
        """Every Service: a cluster may have been silent for too long."""
        return [*state.services, *(ServiceName(*name) for name in state.shared.services)]

    def decide(self, state: NetworkingState, key: Key, now: float) -> Decision:
        """What becomes of the endpoints of one Service, or of the status of one MultiClusterIngress."""
        if self._view is None or not self._view.synced:
            return NOTHING
        if isinstance(key, IngressName):
            return decide_ingress(state, key, self._view.ingresses)
        return decide(state, key, self._view.of(key), now, self._settings.silent_endpoints_after)

    async def start(self, context: Context[NetworkingState, Key]) -> None:
        """Open the control plane."""
        await super().start(context)
        self._control = await open_kubeconfig(self._settings.control_kubeconfig, connections=16)
        self._control.guard = context.guard
        self._recorder = EventRecorder(self._control, context.clock.now)
        register(context.metrics.reads, context.projection.state, self._count, self._ingresses)
        context.health.check("objects", lambda: self._view.trouble if self._view is not None else "")

    def _ingresses(self) -> float:
        return len(self._view.ingresses.names()) if self._view is not None else 0

    def _count(self) -> float:
        return self._written + (self._writes.written if self._writes is not None else 0)

    async def on_leading(self) -> None:
        """Watch the control plane; what is decided before all of it is known is decided again then."""
        view = self._view = ControlView(self._control, self.context.mark, self._known)
        self._writes = ControlWrites(self._control, lambda plural, place: view.versions.get((plural, place), ""))

    async def on_following(self) -> None:
        """Another instance writes now."""
        view, self._view = self._view, None
        self._written, self._writes = int(self._count()), None
        queue, self._queue = self._queue, _queue()
        if view is not None:
            await view.close()
        await queue.close()
        await self._recorder.drop()
        self._told.clear()

    async def stop(self) -> None:
        """Close everything."""
        await self.on_following()
        await self._control.close()

    def _known(self) -> None:
        """All objects of the control plane are known: from here on what is missing is not there."""
        if self._view is not None:
            self.context.mark([*self.recover(self.state), *self._view.names()])

    async def perform(self, effects: Sequence[object]) -> None:
        """Write beside the decisions: a slow control plane holds up no other Service."""
        for effect in effects:
            match effect:
                case Tell():
                    if effect.note is None:
                        self._recorder.settled(effect.about)
                    else:
                        self._recorder.tell_once(effect.note)
                case TellOf():
                    self._tell_new(effect)
                case ReadManifest():
                    self._queue.submit((effect.service, "manifest", effect.digest), partial(self._read, effect))
                case PutSlice():
                    self._submit((effect.service, "slice", effect.item.name), effect)
                case DropSlice():
                    self._submit((effect.service, "slice", effect.name), effect)
                case PutService() | DropService():
                    self._submit((effect.service, "service", ""), effect)
                case ShowAddresses():
                    self._submit((effect.service, "addresses", ""), effect)
                case ShowStatus():
                    self._submit((effect.service, effect.plural, ""), effect)
                case ShowRoutes():
                    self._submit((effect.ingress, "status", ""), effect)
                case _:
                    raise TypeError(f"the networking service has no effect {effect!r}")

    def _tell_new(self, effect: TellOf) -> None:
        known = self._told.pop(effect.about, ())
        if effect.notes:
            self._told[effect.about] = effect.notes
        while len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        for note in effect.notes:
            if note not in known:
                self._recorder.tell(note)

    async def _read(self, effect: ReadManifest) -> None:
        """Take in the manifest of an object, and decide again."""
        try:
            manifest = await self.context.blobs.get(effect.digest)
        except Refused as error:
            log.warning("manifest_not_read", service=str(effect.service), digest=effect.digest, reason=str(error))
            manifest = b""
        self.state.backing.read(effect.service.namespace, effect.digest, manifest)
        self.context.mark([name for name in self.state.services if name.namespace == effect.service.namespace])

    def _submit(self, place: Place, write: Write) -> None:
        self._queue.submit(place, partial(self._carry_out, write))

    async def _carry_out(self, write: Write) -> None:
        if self._writes is None:
            return
        try:
            await self._writes.carry_out(write)
        except (ApiError, Taken) as error:
            # It is tried again with the next change of the Service.
            named = write.ingress if isinstance(write, ShowRoutes) else write.service
            log.warning("write_refused", service=str(named), reason=str(error)[:500])
            self._tell_refusal(write, str(error))
            return
        if isinstance(write, PutService):
            message = f"Service derived-{write.given.name} is in the control plane"
            about = involved(IMPORTS, write.service, write.given.uid)
            self._recorder.tell(note_about(about, "SyncDerivedServiceSucceed", message, COMPONENT))

    def _tell_refusal(self, write: Write, problem: str) -> None:
        """Record on the import, or else on the export or the ingress, that an object could not be written."""
        if isinstance(write, ShowRoutes):
            ingress = write.ingress.involved(write.uid)
            self._recorder.tell(note_about(ingress, "SyncStatusFailed", problem, COMPONENT, warning=True))
            return
        given = self._view.of(write.service) if self._view is not None else None
        if given is None:
            return
        if given.asked is not None:
            about = involved(IMPORTS, write.service, given.asked.uid)
        elif given.export is not None:
            about = involved(EXPORTS, write.service, given.export.uid)
        else:
            return
        derived = isinstance(write, PutService | DropService | ShowAddresses)
        reason = "SyncDerivedServiceFailed" if derived else "SyncEndpointSliceFailed"
        self._recorder.tell(note_about(about, reason, problem, COMPONENT, warning=True))


def _queue() -> Background[Place]:
    return Background(concurrency=16, retry=(Busy, Unreachable, Unavailable), longest_pause=5.0)

"""Runs the cluster monitor: watches Cluster objects, probes push members, listens to agents, keeps facts in step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import structlog

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, AbsenceReleased, ControlPlaneIdentified
from schemas.events.observed import WorkObserved
from schemas.manifest import Manifest
from schemas.subjects import EVERY_ACTIVITY, SubjectError, cluster_of, escape, unescape
from services._kit.concurrency.keyed_work import Background
from services._kit.concurrency.supervision import Supervised, spawn, supervise
from services._kit.credentials.access import Members
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.identity.identity_gate import ControlPlaneIdentity, Gate, Locator, place_of_manifest
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services._kit.kube.event_recorder import EventRecorder
from services._kit.kube.list_watch import Decoded, Reflector, known_uid
from services._kit.log.stream_port import Message
from services._kit.runtime.service import Context, Decider
from services._rules.absence import absence_guard as absence
from services._rules.absence.absence_guard import Guard
from services._rules.decision import Decision
from services._rules.kubernetes.rbac.credential_bindings import bound_namespaces
from services._rules.log.restore_order import absence_in_doubt
from services.cluster_monitor.cluster_announcements import not_tainted, space
from services.cluster_monitor.control_writes import GROUP, VERSION, carry_out, keep_bindings, path_of
from services.cluster_monitor.decide import (
    FINALIZER,
    AddFinalizer,
    Announce,
    DropFinalizer,
    KeepBindings,
    Thresholds,
    WriteIdentity,
    WriteSpec,
    WriteStatus,
    Written,
    decide,
    decide_all,
    named,
)
from services.cluster_monitor.drain_watch import Emptying
from services.cluster_monitor.heartbeat_timeout import Graces
from services.cluster_monitor.heartbeats import HeartbeatRate, Malformed, heard
from services.cluster_monitor.member_identity import fold_absence, is_another
from services.cluster_monitor.metrics import probe_times, register
from services.cluster_monitor.policy_watch import REMEDIES, TAINT_POLICIES, PolicyWatch, Watched, until_served
from services.cluster_monitor.push_probe import Prober
from services.cluster_monitor.settings import MonitorSettings
from services.cluster_monitor.state import ALL, SCOPE, BindingsKept, MonitorState, Probe

log = structlog.get_logger("cluster_monitor")


class Retry(Exception):
    """A write to the control plane that has to be repeated."""


class ClusterMonitor(Decider[MonitorState, str]):
    """Cluster objects and probes in, cluster facts out; keys are cluster names."""

    name = "cluster_monitor"
    filters = (
        "cluster.*",
        "identity.*",
        "absence.*",
        "confirmation.*",
        f"observed.*.{escape('customresourcedefinitions.apiextensions.k8s.io')}.>",
    )
    _client: KubeClient
    _members: Members
    _identity: ControlPlaneIdentity

    def __init__(self, settings: MonitorSettings) -> None:
        self._settings = settings
        graces = Graces(settings.cluster_monitor_grace_period, settings.cluster_startup_grace_period)
        self._thresholds = Thresholds(settings.cluster_success_threshold, settings.cluster_failure_threshold, graces)
        self._probers: dict[str, Prober] = {}
        self._paces: dict[str, HeartbeatRate] = {}
        self._emptying: dict[str, Emptying] = {}
        self._writes: Background[tuple[str, str]] = Background(concurrency=8, retry=(Retry,))
        self._recorder: EventRecorder | None = None
        self._watch: Supervised | None = None
        self._clusters: Reflector[Manifest] | None = None
        self._policies: list[PolicyWatch] = []
        self._leading = False
        self._closing: set[asyncio.Task[None]] = set()

    def new_state(self) -> MonitorState:
        """An empty projection."""
        return MonitorState(guard=Guard(scope=SCOPE, limits=self._settings.limits()))

    def fold(self, state: MonitorState, message: Message, event: Known) -> Iterable[str]:
        """Take in one of the monitor's own facts."""
        match event:
            case WorkObserved():
                # A definition came or went: what the member serves is another list now.
                prober = self._probers.get(event.cluster)
                if prober is not None:
                    prober.look_soon()
            case ClusterChanged():
                cluster = state.of(event.name)
                cluster.fact, cluster.subject_seq = event, message.seq
            case ClusterRemoved():
                cluster = state.of(event.name)
                cluster.fact, cluster.subject_seq, cluster.told = None, message.seq, False
                state.guard.passing.discard(event.name)
                return (ALL,)
            case ControlPlaneIdentified() | AbsenceHeld() | AbsenceReleased() | AbsenceConfirmed():
                return fold_absence(state, message.seq, message.subject, event)
            case _:
                pass
        return ()

    def unsettled(self, state: MonitorState, now: float) -> str:
        """Clusters that were not seen since the log was restored: their facts may be outdated."""
        del now
        if doubt := absence_in_doubt(state.guard):
            return doubt
        if not state.listed:
            return "no list of clusters yet"
        probes = {name: state.of(name).probe for name in self._probers}
        if unseen := [name for name, probe in probes.items() if probe is None]:
            return f"clusters that were not probed yet: {', '.join(unseen[:5])}"
        closed = [f"{name} ({probe.error})" for name, probe in probes.items() if probe is not None and probe.error]
        return f"clusters whose credentials cannot be used: {', '.join(closed[:5])}" if closed else ""

    def recover(self, state: MonitorState) -> Iterable[str]:
        """Every cluster, and what concerns them all."""
        return [ALL, *state.clusters]

    def decide(self, state: MonitorState, key: str, now: float) -> Decision:
        """Facts and writes of one cluster."""
        decision = decide_all(state, now) if key == ALL else decide(state, key, now, self._thresholds)
        if decision.settled:
            absence.settle(state.guard)
        if decision.memory is not None:
            state.of(key).memory = decision.memory
        if decision.unused is not None:
            state.unused = decision.unused
        return decision

    async def start(self, context: Context[MonitorState, str]) -> None:
        """Open the control plane."""
        await super().start(context)
        self._client = await open_kubeconfig(self._settings.control_kubeconfig)
        self._client.guard = context.guard
        self._recorder = EventRecorder(self._client, context.clock.now)
        self._members = Members(self._client)
        if context.connection is not None:
            await context.connection.subscribe(EVERY_ACTIVITY, self._active)
            await context.connection.subscribe("hello.*", self._heartbeat)
            context.connection.on_regained(self._restart_timeouts)
        guard = context.projection.state.guard
        self._identity = await ControlPlaneIdentity.open(
            self._settings.control_kubeconfig, self._client, guard, lambda: context.mark((ALL,))
        )
        context.health.fact("removals_held", lambda: guard.count)
        clusters = context.projection.state.clusters
        context.health.fact("heard", lambda: {name: one.probe.at for name, one in clusters.items() if one.probe})
        register(context.metrics.reads, context.projection.state, context.clock)
        self._probe_times = probe_times(context.metrics)
        context.health.check("watches", self._watch_trouble)
        context.health.check("clusters", lambda: "" if context.projection.state.listed else "no list of clusters yet")

    async def _active(self, message: Any) -> None:
        """An object of a member changed, and so its capacity: probe it when the change is over."""
        prober = self._probers.get(cluster_of(message.subject))
        if prober is not None:
            prober.look_when_quiet()

    async def _heartbeat(self, message: Any) -> None:
        """Take in a heartbeat of a pull member's agent; the registrar answers it, and only its sample counts here."""
        try:
            cluster = self.state.clusters.get(unescape(message.subject.partition(".")[2]))
        except SubjectError:
            return
        if cluster is None or cluster.manifest is None or cluster.manifest["spec"].get("syncMode") != "Pull":
            return
        now = self.context.clock.now()
        if not self._paces.setdefault(cluster.name, HeartbeatRate()).allows(now):
            return
        try:
            sample = heard(message.data, now)
        except Malformed as error:
            log.info("greeting_malformed", cluster=cluster.name, reason=str(error)[:300])
            return
        # After missed heartbeats the last sample is outdated.
        if sample is not None or now - cluster.heard_at > self._settings.cluster_monitor_grace_period:
            cluster.probe = sample
        cluster.heard_at = now
        self.context.mark((cluster.name,))

    def _restart_timeouts(self) -> None:
        """No heartbeat could arrive while the log's server was unreachable: the timeout starts again."""
        now = self.context.clock.now()
        for cluster in self.state.clusters.values():
            if cluster.heard_at:
                cluster.heard_at = now

    async def on_caught_up(self) -> None:
        """Watch Cluster objects from now on."""
        self._identity.start()
        reflector = Reflector(
            self._client,
            path_of(),
            self,
            Decoded(),
            api_version=f"{GROUP}/{VERSION}",
            kind="Cluster",
            gate=Gate(self._identity, self.refused, Locator(path_of(), place_of_manifest)),
        )
        self._clusters = reflector
        self._watch = supervise("watch:clusters", partial(until_served, reflector))
        if self._settings.gates()["Failover"]:
            self._follow(TAINT_POLICIES, self.state.taint_policies, self._policies_changed)
        self._follow(REMEDIES, self.state.remedies, self._remedies_changed)

    def _follow(self, watched: Watched, objects: dict[str, Manifest], changed_to: Callable[[], None]) -> None:
        self._policies.append(PolicyWatch(self._client, watched, objects, changed_to, Gate(self._identity)))

    def _watch_trouble(self) -> str:
        """Why the watches of the control plane have failed; empty while they work."""
        clusters = self._clusters.outage.trouble if self._clusters is not None else ""
        return clusters or next((watch.trouble for watch in self._policies if watch.trouble), "")

    def _policies_changed(self) -> None:
        """What taints clusters is another set of policies now."""
        self.context.mark(list(self.state.clusters))

    def _remedies_changed(self) -> None:
        """What clusters are told to do is another set of Remedies now."""
        self.state.remedies_listed = True
        self.context.mark([ALL, *self.state.clusters])

    async def on_leading(self) -> None:
        """Probe from now on."""
        self._leading = True
        # The leader before this one may have changed them.
        self.state.bindings = None
        for name, cluster in self.state.clusters.items():
            if cluster.manifest is not None:
                self._attend(name, cluster.manifest)

    async def on_following(self) -> None:
        """Another instance probes now."""
        self._leading = False
        probers, self._probers = self._probers, {}
        emptying, self._emptying = self._emptying, {}
        await asyncio.gather(*(p.close() for p in probers.values()), *(e.close() for e in emptying.values()))
        if self._recorder is not None:
            await self._recorder.drop()
        await self._writes.close()
        self._writes = Background(concurrency=8, retry=(Retry,))

    async def stop(self) -> None:
        """Close everything."""
        await self.on_following()
        for watch in self._policies:
            await watch.close()
        if self._watch is not None:
            await self._watch.close()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._members.close()
        await self._identity.close()
        await self._client.close()

    def listed(self, objects: list[Manifest]) -> None:
        """A complete list of Cluster objects."""
        state = self.state
        found = {manifest["metadata"]["name"]: manifest for manifest in objects}
        state.listed = True
        for name in {*state.clusters, *found} - state.lost(found.keys()):
            self._take(name, found.get(name))
        self.context.mark((ALL,))

    def refused(self, objects: list[Manifest]) -> None:
        """A complete list of Cluster objects that does not count."""
        self.state.refuse({manifest["metadata"]["name"] for manifest in objects})
        self.context.mark((ALL,))

    def changed(self, kind: str, manifest: Manifest) -> None:
        """One change of a Cluster object."""
        state, name = self.state, manifest["metadata"]["name"]
        if kind == "DELETED":
            known_uid(state.of(name).manifest, manifest)
            state.told(name, there=False)
        self._take(name, None if kind == "DELETED" else manifest)

    def _take(self, name: str, manifest: Manifest | None) -> None:
        cluster = self.state.of(name)
        if manifest is not None and self.state.told(name, there=True):
            self.context.mark((ALL,))
        if manifest is None or (cluster.manifest is not None and _kind(cluster.manifest) != _kind(manifest)):
            cluster.probe, cluster.empty, cluster.heard_at = None, False, 0.0
            self._paces.pop(name, None)
        if _places(cluster.manifest) != _places(manifest):
            self.context.mark((ALL,))
        cluster.manifest = manifest
        if manifest is not None and not cluster.heard_at and manifest["spec"].get("syncMode") == "Pull":
            cluster.heard_at = self.context.clock.now()
        if self._leading:
            self._attend(name, manifest)
        self.context.mark((name,))

    def _attend(self, name: str, manifest: Manifest | None) -> None:
        """Probe a push member that is under our finalizer; watch it empty while it leaves."""
        spec = (manifest or {}).get("spec") or {}
        metadata = (manifest or {}).get("metadata") or {}
        wanted = spec.get("syncMode") == "Push" and FINALIZER in metadata.get("finalizers", ())
        prober = self._probers.get(name)
        if wanted and prober is None:
            take, missing = partial(self._probed, name), partial(self._unprobed, name)
            interval = self._settings.cluster_status_update_frequency
            lasted = self._probe_times.of(name)
            self._probers[name] = Prober(
                name, self._members, spec, take, missing, interval=interval, clock=self.context.clock, lasted=lasted
            )
        elif wanted and prober is not None:
            prober.update(spec)
        elif prober is not None:
            self._close(self._probers.pop(name).close())
            self._probe_times.forget(name)
        leaving = manifest is not None and "deletionTimestamp" in metadata
        if leaving and name not in self._emptying:
            self._emptying[name] = Emptying(name, self.context.logs, partial(self._emptied, name))
        elif not leaving and name in self._emptying:
            self._close(self._emptying.pop(name).close())

    def _close(self, closing: Any) -> None:
        task = spawn("closing", closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _probed(self, name: str, probe: Probe) -> bool:
        """Take in a probe; True if the next one should follow soon."""
        cluster = self.state.of(name)
        cluster.probe, cluster.unprobed = probe, False
        self.context.mark((name, ALL) if probe.error and _places(cluster.manifest) else (name,))
        return is_another(cluster)

    def _unprobed(self, name: str) -> None:
        log.error("probes_missing", cluster=name)
        self.state.of(name).unprobed = True
        self.context.mark((name,))

    def _emptied(self, name: str) -> None:
        self.state.of(name).empty = True
        self.context.mark((name,))

    async def perform(self, effects: Sequence[object]) -> None:
        """Hand writes over."""
        for effect in effects:
            match effect:
                case Announce():
                    assert self._recorder is not None
                    self._recorder.tell(effect.note)
                case KeepBindings():
                    self._writes.submit((ALL, type(effect).__name__), partial(self._keep_bindings, effect.namespaces))
                case WriteIdentity() | WriteSpec() | WriteStatus() | AddFinalizer() | DropFinalizer():
                    self._writes.submit((effect.name, type(effect).__name__), partial(self._write, effect))
                case _:
                    raise TypeError(f"the cluster monitor has no effect {effect!r}")

    async def _keep_bindings(self, namespaces: frozenset[str]) -> None:
        refused = await keep_bindings(self._client, namespaces)
        self.state.bindings = BindingsKept(namespaces, refused, self.context.clock.now())
        self.context.mark([ALL, *self.state.clusters])

    async def _write(self, effect: Written) -> None:
        try:
            await carry_out(self._client, effect)
        except Unreachable as error:
            raise Retry(str(error)) from error
        except ApiError as error:
            if error.status == 404:
                return
            if error.reason == "Conflict":
                self.context.mark((effect.name,))
                return
            if error.status in PASSING:
                raise Retry(str(error)) from error
            self._tell(effect, str(error))
            raise
        self._tell(effect)

    def _tell(self, effect: Written, why: str = "") -> None:
        """Record the Events about a write, or about why it failed."""
        assert self._recorder is not None
        name = effect.name
        uid = str(((self.state.of(name).manifest or {}).get("metadata") or {}).get("uid", ""))
        if isinstance(effect, WriteSpec):
            # What was refused is not tried again before something else is due.
            self.state.of(name).refused = named(effect.taints) if why else None
            if why:
                self.context.mark((name,))
        match effect:
            case WriteSpec() if why:
                self._recorder.tell(not_tainted(name, uid, why))
            case WriteSpec() | WriteStatus() if not why:
                for note in effect.notes:
                    self._recorder.tell(note)
            case AddFinalizer() | DropFinalizer():
                self._recorder.tell(space(name, uid, created=isinstance(effect, AddFinalizer), why=why))
            case _:
                pass


def _places(manifest: Manifest | None) -> frozenset[str]:
    """Namespaces in which the services are bound for a Cluster object."""
    return frozenset() if manifest is None else bound_namespaces(manifest["spec"])


def _kind(manifest: Manifest) -> tuple[str, str]:
    """Uid and sync mode of a Cluster object: a sample is valid for these only."""
    return str(manifest["metadata"].get("uid", "")), str(manifest["spec"].get("syncMode", ""))

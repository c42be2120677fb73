"""Measures edits of policies on the real log: 10,000 Deployments under 200 policies, one detector, one scheduler.

The detector runs in this process without an API server: policies and objects enter its state as its watches would bring
them, and claims come back as a server would answer. CPU is that of this process and, where named, of the scheduler.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged
from schemas.events.placement import PlacementDecided, TargetCluster
from schemas.events.policy import PolicyChanged
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._kit.base.metrics import KitMetrics
from services._kit.log.stream_port import Message
from services._kit.runtime.runner import Runner
from services._kit.runtime.service import Context, Decider
from services._rules import constants as const
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services.detector.app import Detector
from services.detector.claims.policy_decision import decide_policy
from services.detector.decide import decide_template
from services.detector.policies.claim_writes import WriteClaim
from services.detector.settings import DetectorSettings
from services.detector.state import (
    POLICY_KINDS,
    DetectorState,
    Key,
    fold,
    take_list,
    take_policy,
    take_policy_list,
    take_template,
)
from tests.bench.bench_scheduler_ground import Ground, cluster_fact
from tests.bench.measures import emit
from tests.support.memory_bus import MemoryBus
from tests.support.waiting import eventually

POLICIES: Final = 200
BIG: Final = 1_000
"""Deployments of the first policy; the others share the rest."""
CLUSTERS: Final = ("m1", "m2", "m3")
_LOOK: Final = 0.002


class PlayedDetector(Detector):
    """The detector without a control plane; it notes when which generation of a policy was on the log."""

    def __init__(self) -> None:
        super().__init__(DetectorSettings(control_kubeconfig="none"))
        self.recorded: list[tuple[PolicyKey, int, float]] = []
        self.bindings = 0

    async def start(self, context: Context[DetectorState, Key]) -> None:
        """Start without a client."""
        await Decider.start(self, context)

    async def stop(self) -> None:
        """Nothing was opened."""

    async def on_caught_up(self) -> None:
        """There is nothing to watch."""

    async def on_following(self) -> None:
        """There are no writes under way."""

    def fold(self, state: DetectorState, message: Message, event: Known) -> Any:
        """Take in a fact, and note what is measured."""
        if isinstance(event, PolicyChanged):
            self.recorded.append((event.key, event.generation, time.perf_counter()))
        self.bindings += isinstance(event, BindingRequested)
        return super().fold(state, message, event)

    async def perform(self, effects: Sequence[object]) -> None:
        """Answer the writes of claims as a server would."""
        for effect in effects:
            if isinstance(effect, WriteClaim):
                self.context.mark(take_template(self.state, effect.key, claimed(self.state, effect)))


def claimed(state: DetectorState, effect: WriteClaim) -> Manifest:
    """The object with the claim written."""
    manifest = state.templates[effect.key]
    metadata = dict(manifest["metadata"])
    for part, changes in (("labels", effect.labels), ("annotations", effect.annotations)):
        merged = {**metadata.get(part, {}), **changes}
        metadata[part] = {name: value for name, value in merged.items() if value is not None}
    return {**manifest, "metadata": metadata | {"generation": metadata["generation"] + bool(effect.annotations)}}


def policy_key(number: int) -> PolicyKey:
    """One of the policies."""
    return PolicyKey("PropagationPolicy", "bench", f"policy-{number:03}")


def policy(number: int, generation: int = 1, cluster: str = CLUSTERS[0], **spec: Any) -> Manifest:
    """The policy of a team's Deployments."""
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "bench"}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {
            "name": policy_key(number).name,
            "namespace": "bench",
            "uid": f"policy-{number}",
            "generation": generation,
            "labels": {const.PROPAGATION_POLICY_ID_LABEL: f"id-{number}"},
        },
        "spec": {
            "resourceSelectors": [{**selector, "labelSelector": {"matchLabels": {"team": str(number)}}}],
            "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
            **spec,
        },
    }


def deployment(number: int) -> tuple[ObjectKey, Manifest]:
    """A Deployment of one team."""
    team = 0 if number < BIG else 1 + number % (POLICIES - 1)
    name = f"app-{number}"
    container = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
    return ObjectKey("apps", "deployments", "bench", name), {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": "bench",
            "uid": f"uid-{number}",
            "generation": 1,
            "labels": {"app": name, "team": str(team)},
        },
        "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
    }


def standing(number: int) -> tuple[DetectorState, list[Known]]:
    """A control plane in which everything is claimed, and the facts about it, placements included."""
    state = DetectorState()
    for kind in (*POLICY_KINDS, *INTERPRETERS):
        chosen = range(POLICIES) if kind == "PropagationPolicy" else ()
        take_policy_list(state, kind, {policy_key(item): policy(item) for item in chosen})
    take_list(state, "deployments.apps", dict(map(deployment, range(number))))
    rng = random.Random(7)
    facts: list[Known] = [_cluster(item, name, rng) for item, name in enumerate(CLUSTERS)]
    for item in range(POLICIES):
        facts.extend(_folded(state, decide_policy(state, policy_key(item)).events))
    for key in list(state.templates):
        decision = decide_template(state, key, 1.8e9)
        facts.extend(_folded(state, decision.events))
        for effect in decision.effects:
            assert isinstance(effect, WriteClaim)
            take_template(state, key, claimed(state, effect))
        facts.append(_placement(state, key))
    return state, facts


def _cluster(number: int, name: str, rng: random.Random) -> ClusterChanged:
    fact = cluster_fact(number, rng)
    found = msgspec.json.decode(fact.manifest)
    found["metadata"]["name"] = name
    return msgspec.structs.replace(fact, name=name, manifest=Raw(msgspec.json.encode(found)))


def _folded(state: DetectorState, events: Sequence[Known]) -> Sequence[Known]:
    for event in events:
        fold(state, 1, subject_of(event), event)
    return events


def _placement(state: DetectorState, key: ObjectKey) -> PlacementDecided:
    binding = state.binding_facts[key]
    assert isinstance(binding, BindingRequested)
    return PlacementDecided(
        key=key,
        uid=binding.uid,
        clusters=(TargetCluster(CLUSTERS[0], binding.replicas),),
        placement=Raw(msgspec.json.encode(msgspec.json.decode(binding.spec)["placement"])),
        replicas=binding.replicas,
        trigger="the placement changed",
        scheduled_at=1.8e9,
        provenance=Provenance(as_of=1_000_000),
    )


class Run:
    """One detector on the log, and what is done to its policies."""

    def __init__(self, ground: Ground, number: int) -> None:
        self._ground = ground
        self._number = number
        self._generation = dict.fromkeys(range(POLICIES), 1)
        self.detector = PlayedDetector()
        self.runner: Runner[DetectorState, Key]

    async def measure(self) -> None:
        """Fill the log, start detector and scheduler, measure."""
        began = time.perf_counter()
        known, facts = standing(self._number)
        await self._ground.append(facts)
        await self._ground.start_scheduler()
        logs = {"FACTS": self._ground.facts, "PARKED": self._ground.parked}
        self.runner = Runner(self.detector, logs, MemoryBus(), "bench")
        context: Any = _Context(self.runner)
        await self.detector.start(context)
        running = asyncio.create_task(self.runner.run())
        try:
            await eventually(lambda: self.runner.active)
            for kind in (*POLICY_KINDS, *INTERPRETERS):
                self.runner.mark(
                    take_policy_list(
                        self._state,
                        kind,
                        {key: view.manifest for key, view in known.policies.items() if key.kind == kind},
                    )
                )
            self.runner.mark(take_list(self._state, "deployments.apps", known.templates))
            before = await self._ground.position()
            await self._idle()
            about = {"templates": self._number, "policies": POLICIES}
            emit("policies_start_seconds", time.perf_counter() - began, "s", **about)
            emit("policies_start_appended", await self._ground.position() - before, "facts", **about)
            await self._edit("still", {"priority": 1}, **about)
            await self._edit("retarget", {"cluster": CLUSTERS[1]}, **about)
            await self._selectors(**about)
            await self._rush("still", 0, **about)
            await self._rush("retarget", 1, **about)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    @property
    def _state(self) -> DetectorState:
        return self.runner.projection.state

    def _edits(self, number: int, **changes: Any) -> None:
        self._generation[number] += 1
        manifest = policy(number, self._generation[number], **changes)
        self.runner.mark(take_policy(self._state, policy_key(number), manifest))

    async def _idle(self) -> None:
        deciding = self.runner.deciding
        assert deciding is not None
        await eventually(lambda: not (self.runner.projection.dirty or deciding.in_flight))

    async def _edit(self, what: str, changes: dict[str, Any], **about: Any) -> None:
        """One edit of the policy that claims a thousand objects."""
        before, bindings = await self._ground.position(), self.detector.bindings
        cpu, scheduler, began = time.process_time(), self._ground.cpu(), time.perf_counter()
        self._edits(0, **changes)
        await self._idle()
        ended = time.perf_counter()
        moved = self.detector.bindings - bindings
        emit(f"policy_edit_{what}_seconds", ended - began, "s", bindings=moved, **about)
        emit(f"policy_edit_{what}_cpu_seconds", time.process_time() - cpu, "s", bindings=moved, **about)
        if moved:
            # The policy, the bindings, and a placement for each.
            placed = await self._ground.until(before + 1 + 2 * moved)
            emit(f"policy_edit_{what}_placed_seconds", placed - began, "s", bindings=moved, **about)
            emit(f"policy_edit_{what}_scheduler_cpu_seconds", self._ground.cpu() - scheduler, "s", **about)
        emit(f"policy_edit_{what}_appended", await self._ground.position() - before, "facts", **about)

    async def _selectors(self, **about: Any) -> None:
        """A policy of 10,000 selectors is created, edited and deleted."""
        key = PolicyKey("PropagationPolicy", "bench", "many")
        selectors = [
            {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "bench", "name": f"other-{number}"}
            for number in range(10_000)
        ]
        for what, spec in (("create", {}), ("edit", {"priority": 1}), ("delete", None)):
            manifest = policy(0, 1 + (what == "edit"), resourceSelectors=selectors, **(spec or {}))
            manifest["metadata"] |= {"name": "many", "uid": "many"}
            cpu, began = time.process_time(), time.perf_counter()
            self.runner.mark(take_policy(self._state, key, None if spec is None else manifest))
            await self._idle()
            emit(f"policy_of_10000_selectors_{what}_seconds", time.perf_counter() - began, "s", **about)
            emit(f"policy_of_10000_selectors_{what}_cpu_seconds", time.process_time() - cpu, "s", **about)

    async def _rush(self, what: str, number: int, *, rate: int = 1_000, seconds: int = 10, **about: Any) -> None:
        """A thousand edits a second of one policy; how far behind the log is at most."""
        edited: list[tuple[int, float]] = []
        self.detector.recorded.clear()
        before, cpu, began = await self._ground.position(), time.process_time(), time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            while len(edited) < (now - began) * rate:
                count = len(edited)
                changes = {"cluster": CLUSTERS[count // 100 % 3]} if what == "retarget" else {"priority": count}
                self._edits(number, **({"cluster": CLUSTERS[1]} | changes if number == 0 else changes))
                edited.append((self._generation[number], time.perf_counter()))
            await asyncio.sleep(_LOOK)
        last = time.perf_counter()
        await self._idle()
        key = policy_key(number)
        seen = [(generation, at) for found, generation, at in self.detector.recorded if found == key]
        behind = max(at - since for since, at in _lags(edited, seen))
        emit(f"policy_rush_{what}_behind_seconds", behind, "s", edits=len(edited), **about)
        emit(f"policy_rush_{what}_settled_seconds", time.perf_counter() - last, "s", edits=len(edited), **about)
        emit(f"policy_rush_{what}_cpu_seconds", time.process_time() - cpu, "s", edits=len(edited), **about)
        emit(f"policy_rush_{what}_policy_facts", len(seen), "facts", edits=len(edited), **about)
        emit(f"policy_rush_{what}_appended", await self._ground.position() - before, "facts", **about)


def _lags(edited: Sequence[tuple[int, float]], seen: Sequence[tuple[int, float]]) -> Iterator[tuple[float, float]]:
    """For every edit when it was made, and when it or a later one was on the log."""
    facts = iter(seen)
    generation, at = next(facts)
    for wanted, since in edited:
        while generation < wanted:
            generation, at = next(facts)
        yield since, at


class _Context:
    """What the detector uses of its context."""

    def __init__(self, runner: Runner[DetectorState, Key]) -> None:
        self.projection = runner.projection
        self.clock = runner.clock
        self.mark = runner.mark
        self.metrics = KitMetrics("detector")
        self.blobs = self

    def may_name(self, _: str) -> bool:
        """Every manifest of the measure is inline."""
        return True


async def measure(number: int, directory: Path) -> None:
    """Run all measures once."""
    ground = Ground(directory)
    await ground.open()
    try:
        await Run(ground, number).measure()
    finally:
        await ground.close()


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="just bench-policies", description=__doc__)
    parser.add_argument("--templates", type=int, default=10_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleetlog-bench-") as directory:
        asyncio.run(measure(asked.templates, Path(directory)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

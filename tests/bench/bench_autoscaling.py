"""Measures autoscaling: many FederatedHPAs over many members, in one round and from a sample to pods in members.

    python -m tests.bench.bench_autoscaling [--autoscalers N] [--clusters N] [--spread N] [--rounds N] [--single N]

1,000 FederatedHPAs over 100 simulated members in one process, each of a Deployment with one replica in each of `spread`
(4) members; divided by capacity, or with --static by static weights. One JSON line per figure, with the load average:
members, control plane and bench share the machine. A sample counts as served when the last of the Deployment's members
answered before the decision.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from schemas.codec import decode
from schemas.events.autoscaling import ReplicasRecommended
from schemas.manifest import Manifest
from schemas.topology import FACTS
from services._kit.kube.client import KubeClient, Unreachable, WatchEvent, resource_path
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services.cli.common.layout import CONTROL
from tests.bench.bench_autoscaling_ground import SPACE, Ground
from tests.bench.crowd import Crowd, names
from tests.bench.measures import CONCURRENCY, emit, percentile
from tests.bench.observing import Observer
from tests.bench.processes import Meter, cpu_seconds, pss_mib, running
from tests.e2e.fleet import Fleet, metric

DEPLOYMENTS: Final = resource_path("apps", "v1", "deployments", SPACE)
POLICIES: Final = resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", SPACE)
AUTOSCALERS: Final = resource_path("autoscaling.karmada.io", "v1alpha1", "federatedhpas", SPACE)
PODS: Final = resource_path("", "v1", "pods", SPACE)
PROCESS: Final = "background"
"""The process that runs the autoscaler, among others."""
_PATIENCE: Final = 1800.0
_LOOK: Final = 3.0
"""Between two looks at metrics: an answer takes the process of the autoscaler a tenth of a second."""
_HANDSHAKES: Final = 8
"""Connections that are opened at the same time: one process answers for all members."""
_STEPS: Final = ("autoscaling", "template", "placement", "work")


class _Meta(Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = field(default_factory=dict)


class _Spec(Struct):
    replicas: int = 0


class _Seen(Struct):
    metadata: _Meta = field(default_factory=_Meta)
    spec: _Spec = field(default_factory=_Spec)


_seen: Final = msgspec.json.Decoder(_Seen)


class NewPods:
    """What appears in members, by the name of the Deployment: when each pod and each new number of replicas came.

    In seconds since 1970.
    """

    def __init__(self, ground: Ground, clients: Mapping[str, KubeClient]) -> None:
        self.came: dict[str, list[float]] = {name: [] for name in ground.homes}
        self.asked: dict[str, list[float]] = {name: [] for name in ground.homes}
        self.changed = asyncio.Event()
        self._replicas: dict[tuple[str, str], int] = {}
        self._clients = clients
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Watch all members from the present on."""
        room = asyncio.Semaphore(_HANDSHAKES)

        async def begin(client: KubeClient) -> None:
            async with room:
                for path, take in ((PODS, self._take_pods), (DEPLOYMENTS, self._take_deployments)):
                    listed = await client.get(f"{path}?limit=1")
                    version = str(listed["metadata"]["resourceVersion"])
                    self._tasks.append(asyncio.create_task(self._watch(client, path, version, take)))

        await asyncio.gather(*map(begin, self._clients.values()))

    async def stop(self) -> None:
        """End the watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(self, wanted: Iterable[str], count: int) -> None:
        """Wait until each of these Deployments got so many new pods."""
        missing = set(wanted)
        async with asyncio.timeout(_PATIENCE):
            while missing := {name for name in missing if len(self.came[name]) < count}:
                self.changed.clear()
                broken = next((task for task in self._tasks if task.done()), None)
                if broken is not None:
                    broken.result()
                await self.changed.wait()

    async def _watch(
        self, client: KubeClient, path: str, version: str, take: Callable[[str, _Seen, float], None]
    ) -> None:
        while True:
            try:
                async for events in client.watch(path, version):
                    version = self._take(events, take) or version
            except Unreachable as error:
                # It goes on after what was seen: what came meanwhile counts as later than it was.
                print(f"a watch of {path} begins again: {error}", file=sys.stderr)

    def _take(self, events: Iterable[WatchEvent], take: Callable[[str, _Seen, float], None]) -> str:
        """Take in changes; the version of the last one."""
        now, version = time.time(), ""
        for event in events:
            if event.type == "ERROR":
                raise RuntimeError(f"a watch ended: {bytes(event.object)[:300]!r}")
            seen = _seen.decode(event.object)
            version = seen.metadata.resource_version
            if seen.metadata.labels.get("app", "") in self.came:
                take(event.type, seen, now)
        self.changed.set()
        return version

    def _take_pods(self, change: str, pod: _Seen, now: float) -> None:
        if change == "ADDED":
            self.came[pod.metadata.labels["app"]].append(now)

    def _take_deployments(self, change: str, deployment: _Seen, now: float) -> None:
        key = (deployment.metadata.labels["app"], deployment.metadata.uid)
        if deployment.spec.replicas > self._replicas.setdefault(key, 1):
            self._replicas[key] = deployment.spec.replicas
            self.asked[key[0]].append(now)


class Facts:
    """The facts of one stretch, by Deployment."""

    def __init__(self, connection: Connection) -> None:
        self._log = JetStreamLog(connection, FACTS.name)

    async def end(self) -> int:
        """The last position."""
        return (await self._log.identity()).last_seq

    async def quiet(self, seconds: float = 3.0) -> None:
        """Return once nothing was appended for a while."""
        last = None
        while last != (last := await self.end()):  # noqa: ASYNC110  # silence has no event
            await asyncio.sleep(seconds)

    async def steps(self, after: int) -> dict[str, dict[str, float]]:
        """When each Deployment's scaling was decided, and when the facts that follow from it were stored first.

        Of works the last one counts.
        """
        found: dict[str, dict[str, float]] = {}
        patterns = [f"{name}.>" for name in _STEPS]
        async for message in self._log.read(patterns, after + 1, await self.end()):
            aggregate, name = message.subject.split(".")[0], message.subject.rpartition(".")[2]
            event: Any = decode(message.subject, message.data)
            if aggregate == "autoscaling":
                if not isinstance(event, ReplicasRecommended) or event.desired <= event.current or name in found:
                    continue
                found[name] = {"decided": event.provenance.decided_at, "autoscaling": message.time}
            elif name in found:
                moment = max(found[name].get(aggregate, 0.0), message.time)
                found[name].setdefault(aggregate, moment)
                if aggregate == "work":
                    found[name][aggregate] = moment
        return found


class Scaling:
    """The figures of one installation."""

    def __init__(self, fleet: Fleet, crowd: Crowd, ground: Ground, asked: argparse.Namespace) -> None:
        self._fleet, self._crowd, self._ground, self._asked = fleet, crowd, ground, asked
        self._about = {
            "autoscalers": len(ground.homes),
            "clusters": len(ground.members),
            "spread": ground.spread,
            "division": "static" if asked.static else "by capacity",
        }

    async def run(self) -> None:
        """Fill, measure rounds, then samples to pods: a few while all others are quiet, and all others at once."""
        control = await KubeClient.from_kubeconfig(self._fleet.layout.kubeconfig(CONTROL))
        clients = {
            name: await KubeClient.from_kubeconfig(self._crowd.kubeconfig(name)) for name in self._ground.members
        }
        connection = await Connection.open(self._fleet.installation.log_access, name="bench")
        pods = NewPods(self._ground, clients)
        try:
            facts = Facts(connection)
            await self._fill(control, facts)
            await pods.start()
            await self._rounds()
            singles = [*self._ground.homes][: self._asked.single]
            await self._scale("few of them", singles, pods, facts)
            await self._scale("all at once", [name for name in self._ground.homes if name not in singles], pods, facts)
            self._memory()
        finally:
            await pods.stop()
            await connection.close()
            for client in (control, *clients.values()):
                await client.close()

    async def _fill(self, control: KubeClient, facts: Facts) -> None:
        """Make everything, and wait until every autoscaler has decided."""
        ground = self._ground
        await control.create(resource_path("", "v1", "namespaces"), _namespace())
        for policy in ground.policies(static=self._asked.static):
            await control.create(POLICIES, policy)
        ready = Observer(control, DEPLOYMENTS, {"ready": lambda seen: seen.status.ready_replicas == ground.spread})
        await ready.start()
        began = time.perf_counter()
        await _create(control, DEPLOYMENTS, map(ground.deployment, ground.homes))
        await ready.all("ready", ground.homes, _PATIENCE)
        emit("autoscaling_fill_seconds", time.perf_counter() - began, "s", **self._about)
        await ready.stop()
        pid = self._fleet.pid(PROCESS)
        emit("autoscaling_pss_mib_before", pss_mib(pid), "MiB", process=PROCESS)
        await facts.quiet()
        cpu, began = cpu_seconds(pid), time.perf_counter()
        await asyncio.sleep(self._asked.idle)
        self._idle = (cpu_seconds(pid) - cpu) / (time.perf_counter() - began)
        began = time.perf_counter()
        await _create(control, AUTOSCALERS, map(ground.autoscaler, ground.homes))
        await self._until(lambda: self._metric("fleetlog_autoscaler_autoscalers") >= len(ground.homes))
        emit("autoscaling_first_decisions_seconds", time.perf_counter() - began, "s", **self._about)
        await self._more_rounds(2)
        await facts.quiet()

    async def _rounds(self) -> None:
        """Rounds in which nothing has to be changed."""
        pid = self._fleet.pid(PROCESS)
        meter, crowd = Meter(self._fleet.layout), cpu_seconds(self._crowd.pid)
        cpu, seconds, lists = cpu_seconds(pid), self._round_seconds(), self._metric("fleetlog_autoscaler_sample_lists")
        began = time.perf_counter()
        rounds = await self._more_rounds(self._asked.rounds)
        took = time.perf_counter() - began
        evaluations = rounds * len(self._ground.homes)
        emit("autoscaling_round_seconds", (self._round_seconds() - seconds) / rounds, "s", rounds=rounds, **self._about)
        used = cpu_seconds(pid) - cpu - self._idle * took
        emit("autoscaling_cpu_ms_per_evaluation", used * 1000 / evaluations, "ms", idle_share=round(self._idle, 3))
        parts = meter.parts(meter.used())
        each = {part: round(value * 1000 / evaluations, 3) for part, value in parts.items()}
        emit("autoscaling_all_cpu_ms_per_evaluation", sum(parts.values()) * 1000 / evaluations, "ms", by_part=each)
        emit("autoscaling_members_cpu_ms_per_round", (cpu_seconds(self._crowd.pid) - crowd) * 1000 / rounds, "ms")
        asked = self._metric("fleetlog_autoscaler_sample_lists") - lists
        emit("autoscaling_lists_per_round", asked / rounds, "lists")

    async def _scale(self, how: str, wanted: Sequence[str], pods: NewPods, facts: Facts) -> None:
        """Let pods use more, and wait for those that come of it."""
        if not wanted:
            return
        start = await facts.end()
        meter = Meter(self._fleet.layout)
        await asyncio.to_thread(self._load, wanted)
        await pods.until(wanted, self._ground.spread)
        parts = meter.parts(meter.used())
        steps = await facts.steps(start)
        served = {member: self._crowd.served(member) for member in self._ground.members}
        times: dict[str, list[float]] = {}
        for name in wanted:
            seen = steps[name]
            last = max(max(at for at in served[member] if at <= seen["decided"]) for member in self._ground.homes[name])
            came = sorted(pods.came[name])
            asked = sorted(pods.asked[name])
            times.setdefault("first replicas", []).append(asked[0] - last)
            times.setdefault("last replicas", []).append(asked[-1] - last)
            times.setdefault("first pod", []).append(came[0] - last)
            times.setdefault("last pod", []).append(came[self._ground.spread - 1] - last)
            for step in ("decided", *_STEPS):
                times.setdefault(step, []).append(seen[step] - last)
        about = {"how": how, "scaled": len(wanted), **self._about}
        for name, found in times.items():
            p99 = round(percentile(found, 0.99) * 1000, 1)
            emit(
                f"autoscaling_sample_to_{name.replace(' ', '_')}_ms",
                1000 * statistics.median(found),
                "ms",
                p99=p99,
                **about,
            )
        emit("autoscaling_scale_up_cpu_ms", sum(parts.values()) * 1000 / len(wanted), "ms", how=how)

    def _load(self, wanted: Sequence[str]) -> None:
        for name in wanted:
            for member in self._ground.homes[name]:
                self._crowd.set_load(member, {"namespace": SPACE, "name": name, "cpu": "95%"})

    def _memory(self) -> None:
        found = {name: round(pss_mib(pid), 1) for name, pid in running(self._fleet.layout).items()}
        emit("autoscaling_pss_mib", found[PROCESS], "MiB", process=PROCESS, by_process=found, **self._about)

    def _metric(self, name: str) -> float:
        return metric(self._fleet, "autoscaler", name)

    def _round_seconds(self) -> float:
        return self._metric("federatedhpa_process_duration_seconds_sum")

    async def _more_rounds(self, number: int) -> int:
        """Wait for so many whole rounds; how many there were."""
        count = "federatedhpa_process_duration_seconds_count"
        before = self._metric(count)
        await self._until(lambda: self._metric(count) >= before + number)
        return int(self._metric(count) - before)

    async def _until(self, holds: Any) -> None:
        async with asyncio.timeout(_PATIENCE):
            while not await asyncio.to_thread(holds):  # noqa: ASYNC110  # metrics of a service have no event
                await asyncio.sleep(_LOOK)


def _namespace() -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}


async def _create(client: KubeClient, path: str, manifests: Iterable[Manifest]) -> None:
    room = asyncio.Semaphore(CONCURRENCY)

    async def one(manifest: Manifest) -> None:
        async with room:
            await client.create(path, manifest)

    async with asyncio.TaskGroup() as group:
        for manifest in manifests:
            group.create_task(one(manifest))


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="just bench-autoscaling", description=__doc__)
    parser.add_argument("--autoscalers", type=int, default=1000)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--spread", type=int, default=4, help="members of each Deployment, and its replicas")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of which the figures are taken")
    parser.add_argument("--single", type=int, default=25, help="FederatedHPAs that scale while all others are quiet")
    parser.add_argument("--static", action="store_true", help="static weights: no estimate is asked for")
    parser.add_argument("--idle", type=float, default=15.0, help="seconds of rest that are taken off the CPU")
    asked = parser.parse_args()
    # Samples of the first minutes of a pod count as well.
    os.environ.setdefault("FLEETLOG_HORIZONTAL_POD_AUTOSCALER_CPU_INITIALIZATION_PERIOD", "1s")
    with tempfile.TemporaryDirectory(prefix="fleetlog-autoscaling-") as directory:
        home = Path(directory)
        ground = Ground(asked.autoscalers, asked.clusters, asked.spread)
        with Crowd(home / "members", asked.clusters) as crowd:
            joined = [
                word for name in names(asked.clusters) for word in ("--member", f"{name}={crowd.kubeconfig(name)}")
            ]
            fleet = Fleet(home / "fleet", ["--members", "0", *joined], start_seconds=600.0)
            fleet.start()
            try:
                import uvloop

                uvloop.run(Scaling(fleet, crowd, ground, asked).run())
            finally:
                fleet.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

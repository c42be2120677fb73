"""Fault: the autoscaler dies around its facts and its writes, while load changes and schedules fire every few seconds.

Its clock runs faster than that of the machine: rules of a schedule are due at whole minutes.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any, Final

from schemas.codec import decode
from schemas.events.autoscaling import AutoscalingEvent, ScheduleAdvanced
from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from schemas.subjects import autoscaling, escape
from services._kit.base.fault_points import Point
from services._kit.kube.client import resource_path
from services._kit.runtime.runner import Runner
from services.cli.common.layout import CONTROL
from services.cli.fleetlog import main
from tests.e2e.fleet import Fleet
from tests.e2e.space import propagation, weighed
from tests.faults.checker import Audits
from tests.faults.checker_autoscaling import changes, runs, steps
from tests.faults.checker_log import chains
from tests.faults.ground import Ground
from tests.faults.scene import Scene

SERVICE: Final = "autoscaler"
USER: Final = "fleetlog:autoscaler"
TIMES: Final = 20
"""How much faster its clock runs: a minute takes three seconds."""
_COMMAND: Final = "from tests.faults.faults_autoscaler import up; up()"
_METRIC: Final = "waiting"
_PER_POD: Final = 10
_MOST: Final = 6
_SHIFT: Final = 4
_KILLS: Final[tuple[tuple[Point, str], ...]] = (
    ("before_append", ""),
    ("after_append", ""),
    ("before_act", "/queue/scale"),
    ("after_act", "/queue/scale"),
    ("before_act", "/shift/scale"),
    ("after_act", "/shift/scale"),
)
"""Where it dies: around storing facts, around scaling by a metric, around scaling by a schedule."""
_GROUP: Final = "autoscaling.karmada.io"


class FastClock:
    """Implements the port Clock: its wall time runs faster from a moment on."""

    def __init__(self, began: float) -> None:
        self._began = began

    def now(self) -> float:
        """Seconds since 1970."""
        return self._began + (time.time() - self._began) * TIMES

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps."""
        return time.monotonic()


def up() -> None:
    """`fleetlog up` whose autoscaler has a fast clock, also when it was started again."""
    plain, clock = Runner.__init__, FastClock(time.time())

    def made(self: Any, service: Any, *arguments: Any, **named: Any) -> None:
        if service.name == SERVICE:
            named["clock"] = clock
        plain(self, service, *arguments, **named)

    Runner.__init__ = made  # type: ignore[method-assign]  # no setting makes time pass faster
    sys.exit(main())


class Scaling(Ground):
    """An installation whose autoscaler looks twice in a second."""

    def environment(self) -> dict[str, str]:
        """Settings of every service."""
        return {**super().environment(), "FLEETLOG_HORIZONTAL_POD_AUTOSCALER_SYNC_PERIOD": "0.5"}

    def make_fleet(self) -> Fleet:
        """The installation, not started."""
        return Fleet(self.directory / "installation", self.arguments(), self.environment(), _COMMAND)


class _Scaled:
    """What is scaled in a round: `queue` by a metric, `shift` by a schedule, `limits` as a schedule limits it."""

    def __init__(self, scene: Scene) -> None:
        self.namespace = f"{scene.namespace}-scaled"
        self.value = 0
        self.edits = 0
        """How often somebody else has scaled `shift`."""
        self._scene = scene

    def path(self, plural: str, name: str = "", group: str = "apps", version: str = "v1") -> str:
        """URL path of objects of the round."""
        return resource_path(group, version, plural, self.namespace, name)

    async def prepare(self) -> None:
        """Create everything, and wait until it runs."""
        control = self._scene.eyes.control
        await self.load(_PER_POD)
        await control.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        policies = self.path("propagationpolicies", group="policy.karmada.io", version="v1alpha1")
        selectors = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
        await control.create(policies, propagation("scaled", selectors, weighed(member1=1, member3=1)))
        for name in ("queue", "shift", "limits"):
            await control.create(self.path("deployments"), _deployment(name))
        for name, most in (("queue", _MOST), ("limits", _MOST)):
            await control.create(self._scaling("federatedhpas"), _autoscaler(name, most))
        shift = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shift"}
        limits = {"apiVersion": f"{_GROUP}/v1alpha1", "kind": "FederatedHPA", "name": "limits"}
        rules: list[Manifest] = [{"name": "hold", "schedule": "* * * * *", "targetReplicas": _SHIFT}]
        await control.create(self._scaling("cronfederatedhpas"), _schedule("shift", shift, rules))
        # The queue of `limits` asks for one replica: its least replicas are what it has.
        rules = [
            {"name": "even", "schedule": "*/2 * * * *", "targetMinReplicas": 3},
            {"name": "odd", "schedule": "1-59/2 * * * *", "targetMinReplicas": 2},
        ]
        await control.create(self._scaling("cronfederatedhpas"), _schedule("limits", limits, rules))

    def _scaling(self, plural: str, name: str = "") -> str:
        return self.path(plural, name, _GROUP, "v1alpha1")

    async def load(self, value: int) -> None:
        """Let so much wait in the queue."""
        self.value = value
        one = {"metric": "idle", "namespace": self.namespace, "value": "1"}
        for body in (one, {**one, "metric": _METRIC, "value": str(value)}):
            await asyncio.to_thread(self._scene.ground.ask_member, "member1", "/metric", **body)

    async def other_load(self) -> None:
        """Let another number of replicas be needed, and have somebody else scale `shift`."""
        choices = [value for value in range(1, _MOST + 1) if value != math.ceil(self.value / _PER_POD)]
        await self.load(_PER_POD * self._scene.chance.choice(choices))
        if await self.replicas("shift") == _SHIFT:
            await self._scene.eyes.control.patch(self.path("deployments", "shift"), {"spec": {"replicas": 1}})
            self.edits += 1

    async def replicas(self, name: str) -> int:
        """Replicas of a template."""
        return int((await self._scene.eyes.control.get(self.path("deployments", name)))["spec"]["replicas"])

    async def rest(self) -> None:
        """End the schedules once `shift` is what its rule says, and wait until the metric is what counts."""
        scene, control = self._scene, self._scene.eyes.control
        await scene.wait("the last edit is overruled", self._at("shift", lambda: _SHIFT))
        for name in ("shift", "limits"):
            await scene.wait(f"no rule of {name} runs any more", await self._suspend(name))
            await control.delete(self._scaling("cronfederatedhpas", name))
        await scene.wait("the queue has its replicas", self._at("queue", lambda: math.ceil(self.value / _PER_POD)))
        least = (await control.get(self._scaling("federatedhpas", "limits")))["spec"]["minReplicas"]
        await scene.wait("the limits hold", self._at("limits", lambda: int(least)))

        async def settled() -> bool:
            return all([await self._shows(name) for name in ("queue", "limits")])

        await scene.wait("the autoscalers show what they came to", settled)

    async def _suspend(self, name: str) -> Callable[[], Any]:
        """Suspend all rules of a schedule; the answer tells whether that is known and none is being carried out."""
        path = self._scaling("cronfederatedhpas", name)
        rules = [{**rule, "suspend": True} for rule in (await self._scene.eyes.control.get(path))["spec"]["rules"]]
        patched = await self._scene.eyes.control.patch(path, {"spec": {"rules": rules}})
        subject = autoscaling(PolicyKey("CronFederatedHPA", self.namespace, name))

        async def look() -> bool:
            event = decode(subject, (await self._scene.eyes.messages("FACTS", (subject,)))[-1].data)
            assert isinstance(event, ScheduleAdvanced)
            known = event.generation >= patched["metadata"]["generation"]
            return known and not any(rule.running for rule in event.rules)

        return look

    def _at(self, name: str, wanted: Callable[[], int]) -> Callable[[], Any]:
        async def look() -> bool:
            return await self.replicas(name) == wanted()

        return look

    async def _shows(self, name: str) -> bool:
        found = await self._scene.eyes.control.get(self._scaling("federatedhpas", name))
        status, present = found.get("status") or {}, await self.replicas(name)
        reasons = {item["type"]: item["reason"] for item in status.get("conditions") or ()}
        numbers = status.get("currentReplicas"), status.get("desiredReplicas")
        return numbers == (present, present) and reasons.get("AbleToScale") == "ReadyForNewScale"

    async def check(self, audits: Audits, since: int) -> list[str]:
        """What the log and the audit log say of all that happened."""
        outcome = self._scene.outcome
        messages = await self._scene.history(f"autoscaling.*.{escape(self.namespace)}.*")
        facts: dict[str, list[AutoscalingEvent]] = {}
        for message in messages:
            event = decode(message.subject, message.data)
            assert isinstance(event, AutoscalingEvent)
            facts.setdefault(message.subject, []).append(event)
        audit = [record for _, record in audits.by(USER)]
        complaints = chains(messages, since)
        scaled = 0
        for name in ("queue", "limits"):
            found = facts.get(autoscaling(PolicyKey("FederatedHPA", self.namespace, name)), [])
            writes = changes(audit, USER, self.namespace, name, "scale")
            scaled += writes
            complaints += steps(found, writes, await self.replicas(name))
        succeeded = failed = 0
        for name, most in (("shift", self.edits + 1), ("limits", sys.maxsize)):
            found = facts.get(autoscaling(PolicyKey("CronFederatedHPA", self.namespace, name)), [])
            well, badly, wrong = runs(found)
            succeeded, failed = succeeded + well, failed + badly
            complaints += wrong
            written = changes(audit, USER, self.namespace, name, "scale" if name == "shift" else "")
            if written > min(well + badly, most):
                complaints.append(
                    f"{name} was written {written} times by {well + badly} runs, edited {self.edits} times"
                )
        if not succeeded:
            complaints.append("no rule of a schedule has run")
        outcome.notes.append(f"{scaled} steps, {succeeded} runs, {failed} interrupted")
        outcome.checks |= {"scale steps settled once": scaled, "runs of rules executed once": succeeded + failed}
        return complaints

    async def remove(self) -> None:
        """Delete everything."""
        control = self._scene.eyes.control
        for name in ("queue", "limits"):
            await control.delete(self._scaling("federatedhpas", name))
        await control.delete(resource_path("", "v1", "namespaces", "", self.namespace))


async def killed(scene: Scene) -> None:
    """kill -9 at every one of its points in turn, each time after the load has changed."""
    audits = Audits({CONTROL: scene.fleet.layout.audit(CONTROL)})
    before = await scene.eyes.last_seq()
    scaled = _Scaled(scene)
    await scaled.prepare()
    points = list(_KILLS)
    scene.chance.shuffle(points)

    async def kill() -> None:
        for point, what in points:
            # Of a schedule each write is one of its own; facts and steps come in rows.
            count = scene.chance.randint(1, 4) if not what else 1
            await _kill_at(scene, scaled, point, count, what)

    await scene.under_load(kill, at=0.0)
    await scaled.rest()
    scene.outcome.complaints += await scene.settle()
    scene.outcome.complaints += await scaled.check(audits, before)
    await scaled.remove()


async def _kill_at(scene: Scene, scaled: _Scaled, point: Point, count: int, what: str) -> None:
    dead = scene.fleet.pid(SERVICE)
    scene.ground.order(SERVICE, point, count, what)
    loads = cycle((True, False, False, False, False))

    async def died() -> bool:
        if SERVICE not in scene.ground.ordered():
            return True
        if next(loads):
            await scaled.other_load()
        return False

    await scene.wait(f"the autoscaler comes to {point} {what}", died)
    await scene.wait(f"the autoscaler is back after {point} {what}", lambda: scene.back(SERVICE, dead))


def _deployment(name: str) -> Manifest:
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]},
            },
        },
    }


def _autoscaler(name: str, most: int) -> Manifest:
    metric = {
        "metric": {"name": _METRIC if name == "queue" else "idle"},
        "target": {"type": "AverageValue", "averageValue": str(_PER_POD)},
    }
    return {
        "metadata": {"name": name, "annotations": {"fleetlog.io/scale-to-zero": "true"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": most,
            "metrics": [{"type": "External", "external": metric}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


def _schedule(name: str, target: Manifest, rules: list[Manifest]) -> Manifest:
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": target, "rules": rules}}

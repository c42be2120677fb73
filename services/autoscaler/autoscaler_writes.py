"""Makes the writes of the autoscaler to the control plane: scales, limits of FederatedHPAs, statuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from schemas.events.autoscaling import RuleRun
from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.autoscaling.cron_rules import limits_of
from services._rules.constants import AUTOSCALERS, AUTOSCALING_API, FEDERATED_HPA
from services.autoscaler.reading.scale_access import Moved, Scales
from services.autoscaler.scaling_effects import Outcome, Rescale, Verify
from services.autoscaler.schedule_decision import Run

PLURALS: Final[Mapping[str, str]] = {kind: plural for plural, kind in AUTOSCALERS.items()}
NOT_WRITTEN: Final = "the change was not written before the service ended, or the control plane gave no answer"
_TRIES: Final = 5
_GONE: Final = frozenset({404, 409})


class AutoscalerWrites:
    """Writes that are compared with what is there first: what it says already is not written."""

    def __init__(self, control: KubeClient, scales: Scales, now: Callable[[], float]) -> None:
        self._control = control
        self._scales = scales
        self._now = now

    async def rescale(self, effect: Rescale, api_version: str) -> Outcome | None:
        """Set the replicas of a target; how that went, None where it is not known."""
        try:
            await self._scales.write(effect.target, api_version, effect.replicas, effect.before)
        except (ApiError, Moved) as error:
            return None if _is_unsure(error) else Outcome(effect.replicas, str(error)[:500])
        except Unreachable:
            return None
        return Outcome(effect.replicas)

    async def verify(self, effect: Verify, api_version: str) -> Outcome | None:
        """Find out whether a target has the replicas that were asked for; None while that cannot be known."""
        try:
            present = await self._scales.present(effect.target, api_version)
        except ApiError as error:
            return None if _is_unsure(error) else Outcome(effect.replicas, f"{NOT_WRITTEN}: {error}"[:500])
        except Unreachable:
            return None
        if present == effect.replicas:
            return Outcome(effect.replicas)
        return Outcome(effect.replicas, f"{NOT_WRITTEN}: the target has {present} replicas")

    async def run(self, effect: Run) -> RuleRun:
        """Carry out one rule; how that went."""
        kind, rule = str(effect.target.get("kind") or ""), effect.rule
        try:
            if effect.target.get("apiVersion") == AUTOSCALING_API:
                if kind != FEDERATED_HPA:
                    raise ValueError(f"of {AUTOSCALING_API} only FederatedHPA can be scaled, the target is a {kind}")
                await self._limit(effect)
                least, most = rule.get("targetMinReplicas"), rule.get("targetMaxReplicas")
                return RuleRun(effect.scheduled, self._now(), least=least, most=most)
            await self._scale(effect)
            return RuleRun(effect.scheduled, self._now(), replicas=rule.get("targetReplicas"))
        except (ApiError, Unreachable, ValueError) as error:
            return RuleRun(effect.scheduled, self._now(), problem=str(error)[:500])

    async def status(self, key: PolicyKey, uid: str, status: Manifest) -> None:
        """Show a status; nothing where the object is gone, or another one has its name."""
        path = _path(key, "status")
        try:
            await self._control.patch(path, {"metadata": {"uid": uid}, "status": status})
        except ApiError as error:
            if error.status not in _GONE:
                raise

    async def _scale(self, effect: Run) -> None:
        target, replicas = effect.target, effect.rule.get("targetReplicas")
        api_version, kind = str(target.get("apiVersion") or ""), str(target.get("kind") or "")
        name = str(target.get("name") or "")
        if replicas is None:
            raise ValueError(f"the rule has no targetReplicas, which a {kind} needs")
        key = await self._scales.place(api_version, kind, effect.key.namespace, name)
        if key is None:
            raise ValueError(f"the control plane serves no {kind} of {api_version or 'no apiVersion'}")
        await self._scales.write(key, api_version, int(replicas))

    async def _limit(self, effect: Run) -> None:
        """Set the least and most replicas of a FederatedHPA, in one update."""
        path = _path(PolicyKey(FEDERATED_HPA, effect.key.namespace, str(effect.target.get("name") or "")))
        for attempt in range(_TRIES):
            found = await self._control.get(path)
            spec = found.get("spec") or {}
            wanted = limits_of(effect.rule, spec)
            if all(spec.get(name) == value for name, value in wanted.items()):
                return
            version = found["metadata"].get("resourceVersion")
            try:
                await self._control.patch(path, {"metadata": {"resourceVersion": version}, "spec": wanted})
            except ApiError as error:
                if error.status != 409 or attempt == _TRIES - 1:
                    raise
                continue
            return


def _is_unsure(error: Exception) -> bool:
    """Whether a refusal does not say that nothing was changed."""
    return isinstance(error, ApiError) and error.status in PASSING


def shows(present: Manifest, status: Manifest) -> bool:
    """Whether a status says already what would be written."""
    return all(present.get(name) == value for name, value in status.items())


def _path(key: PolicyKey, subresource: str = "") -> str:
    group, version = AUTOSCALING_API.split("/")
    return resource_path(group, version, PLURALS[key.kind], key.namespace, key.name, subresource)

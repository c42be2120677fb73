"""Evictions: deletions of pods within the limits of their disruption budgets."""

from schemas.manifest import Manifest
from services._rules.kubernetes.selectors import LabelSelectorError, compile_selector
from services.apiserver.core.cloning import clone
from services.apiserver.core.request_context import Call, now, timestamp
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import Entry
from services.apiserver.writes.delete_options import DeleteOptions
from services.apiserver.writes.deletion import Deleter
from services.apiserver.writes.object_writes import Objects

_MOST_DISRUPTED = 2000


class Evictions:
    """Deletes pods through their disruption budgets."""

    def __init__(self, objects: Objects, deleter: Deleter) -> None:
        self._objects = objects
        self._deleter = deleter

    async def evict(self, kind: Kind, namespace: str, name: str, options: DeleteOptions, call: Call) -> None:
        """Evict a pod; raises 404, 429 or 500."""
        pod = self._objects.get(kind, namespace, name).obj
        phase = (pod.get("status") or {}).get("phase")
        if phase not in ("Succeeded", "Failed", "Pending", None, "") and not pod["metadata"].get("deletionTimestamp"):
            await self._spend(pod, namespace, call, dry_run=call.dry_run or options.dry_run)
        await self._deleter.delete(kind, namespace, name, options, call, admitted=True)

    def _budgets(self, pod: Manifest, namespace: str) -> list[Entry]:
        found = []
        labels = pod["metadata"].get("labels") or {}
        for entry in self._objects.store.list("policy", "poddisruptionbudgets", namespace):
            selector = (entry.obj.get("spec") or {}).get("selector")
            if not selector:
                continue
            try:
                matches = compile_selector(selector).matches(labels)
            except LabelSelectorError:
                continue
            if matches:
                found.append(entry)
        return found

    async def _spend(self, pod: Manifest, namespace: str, call: Call, *, dry_run: bool) -> None:
        budgets = self._budgets(pod, namespace)
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise ApiError(500, "", text)
        for entry in budgets:
            budget = entry.obj
            state, name = budget.get("status") or {}, entry.key.name
            if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
                raise _refused(f"The disruption budget {name} is still being processed by the server.")
            if state.get("disruptionsAllowed", 0) < 0:
                raise _impossible(name, "pdb disruptions allowed is negative")
            if len(state.get("disruptedPods") or ()) > _MOST_DISRUPTED:
                text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
                raise _impossible(name, text)
            if state.get("disruptionsAllowed", 0) == 0:
                raise _refused(
                    f"The disruption budget {name} needs {state.get('desiredHealthy', 0)} healthy pods and has "
                    f"{state.get('currentHealthy', 0)} currently"
                )
            if dry_run:
                continue
            owner = self._objects.registry.by_api_version(str(budget["apiVersion"]), "PodDisruptionBudget")
            if owner is None:
                continue

            def make(old: Manifest) -> Manifest:
                new = clone(old)
                left = new.setdefault("status", {})
                if left.get("disruptionsAllowed", 0) <= 0:
                    raise _refused(f"The disruption budget {old['metadata']['name']} allows no further disruption.")
                left["disruptionsAllowed"] -= 1
                left.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = timestamp(now())
                return new

            await self._objects.update(
                owner, namespace, name, make, Call(call.user, verb="update"), subresource="status", patch=True
            )


def _refused(text: str) -> ApiError:
    details = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", message, details)


def _impossible(name: str, text: str) -> ApiError:
    details = {"name": name, "group": "policy", "kind": "poddisruptionbudget"}
    return ApiError(403, "Forbidden", f'poddisruptionbudget.policy "{name}" is forbidden: {text}', details)

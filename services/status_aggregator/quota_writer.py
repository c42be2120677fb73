"""Writes the status of FederatedResourceQuotas, and Kubernetes Events about what became of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.kube.answers.shapes import check_manifest
from services._kit.kube.client import JSON_PATCH, ApiError, KubeClient, resource_path
from services._rules.kubernetes.event_objects import Note
from services._rules.kubernetes.patch.json_patch import same_json
from services._rules.quota.specification import API_VERSION, GROUP, KIND, PLURAL, FederatedQuota
from services.status_aggregator.present_objects import present_objects
from services.status_aggregator.quota_status import QuotaView, Share, view_of
from services.status_aggregator.state import AggregatorState

_VERSION: Final = "v1alpha1"
_TRIES: Final = 3
_SYNC: Final = "federated-resource-quota-sync-controller"
_STATUS: Final = "federated-resource-quota-status-controller"
_ENFORCEMENT: Final = "federated-resource-quota-enforcement-controller"


class _Present(Struct, frozen=True):
    uid: str
    status: Manifest
    version: str


class QuotaStatusWriter:
    """The status subresource of quotas, remembered so that it is read only once."""

    def __init__(self, client: KubeClient, state: AggregatorState, tell: Callable[[Note], None]) -> None:
        self._client = client
        self._state = state
        self._tell = tell
        self._known: dict[ObjectKey, _Present] = {}
        self._told: dict[tuple[ObjectKey, str], str] = {}

    def wanted(self, key: ObjectKey) -> QuotaView | None:
        """Status and problems of a quota by what is known now; None where it is gone, or about to be."""
        limited = self._state.limited
        quota = limited.quotas.get(key)
        if quota is None or quota.deleting:
            return None
        reported = self._state.objects.get(key)
        binding = reported.binding if reported is not None else None
        shares = self._shares(key, quota)
        propagated = binding if isinstance(binding, BindingRequested) else None
        return view_of(quota, shares, self._state.clusters, limited.usage, propagated)

    def _shares(self, key: ObjectKey, quota: FederatedQuota) -> list[Share]:
        reported = self._state.objects.get(key)
        found: list[Share] = []
        for cluster, copy in sorted(reported.works.items()) if reported is not None else ():
            if not copy.wanted or copy.uid != quota.uid or cluster not in self._state.clusters:
                continue
            entry = reported.observed.get(cluster) if reported is not None else None
            if copy.problem or entry is None or entry[0].uid != quota.uid or entry[0].absent:
                continue
            seen = entry[0]
            if not seen.applied:
                found.append(Share(cluster, problem=seen.message))
            elif isinstance(seen.status, msgspec.Raw):
                found.append(Share(cluster, seen.status))
        return found

    def differs(self, key: ObjectKey) -> bool:
        """Whether something is to be written or said of a quota."""
        view, known, quota = self.wanted(key), self._known.get(key), self._state.limited.quotas.get(key)
        if view is None or quota is None:
            return False
        if known is None or known.uid != quota.uid or not same_json(known.status, view.status):
            return True
        return any(self._told.get((key, reason), "") != words for reason, words in _problems(view))

    async def remember(self) -> None:
        """Read the present status of all quotas in bulk; what cannot be listed is read one by one later."""
        if not self._state.limited.quotas:
            return
        async for item in present_objects(self._client, GROUP, _VERSION, PLURAL):
            metadata = item["metadata"]
            self._keep(ObjectKey("", "resourcequotas", metadata.get("namespace", ""), metadata["name"]), item)

    async def write(self, key: ObjectKey) -> None:
        """Bring the status of a quota to what is known now; raises ApiError, Unreachable."""
        quota = self._state.limited.quotas.get(key)
        if quota is None:
            self._known.pop(key, None)
            for told in [told for told in self._told if told[0] == key]:
                del self._told[told]
            return
        path = resource_path(GROUP, _VERSION, PLURAL, key.namespace, key.name)
        for attempt in range(_TRIES):
            present, view = await self._present(key, path), self.wanted(key)
            if present is None or view is None or present.uid != quota.uid:
                return
            if same_json(present.status, view.status):
                self._complain(quota, key, view)
                return
            try:
                answer = await self._client.patch(f"{path}/status", _replacement(present, view.status), JSON_PATCH)
            except ApiError as error:
                self._known.pop(key, None)
                if error.status in (404, 409, 422) and attempt + 1 < _TRIES:
                    continue
                self._say(
                    quota, "AggregateStatusFailed", f"The control plane refuses the status: {error}", warning=True
                )
                raise
            check_manifest(answer, KIND)
            self._keep(key, answer)
            self._celebrate(quota, present.status, view.status)
            self._complain(quota, key, view)
            return

    async def _present(self, key: ObjectKey, path: str) -> _Present | None:
        quota = self._state.limited.quotas.get(key)
        known = self._known.get(key)
        if known is not None and quota is not None and known.uid == quota.uid:
            return known
        try:
            live = await self._client.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        check_manifest(live, KIND)
        self._keep(key, live)
        return self._known[key]

    def _keep(self, key: ObjectKey, live: Manifest) -> None:
        metadata = live["metadata"]
        version = str(metadata.get("resourceVersion", ""))
        self._known[key] = _Present(str(metadata.get("uid", "")), live.get("status") or {}, version)

    def _celebrate(self, quota: FederatedQuota, before: Manifest, after: Manifest) -> None:
        if before.get("aggregatedStatus") != after.get("aggregatedStatus"):
            self._say(quota, "SyncWorkSucceed", "Every cluster with an assignment that joined has its ResourceQuota.")
            self._say(quota, "AggregateStatusSucceed", "The status of all clusters was aggregated.")
        if self._state.limited.usage is not None and any(
            before.get(part) != after.get(part) for part in ("overall", "overallUsed")
        ):
            self._say(quota, "CollectOverallStatusSucceed", "The usage of the namespace was collected.")

    def _complain(self, quota: FederatedQuota, key: ObjectKey, view: QuotaView) -> None:
        """Say what is wrong, once for each that is new."""
        for reason, words in _problems(view):
            if words and self._told.get((key, reason), "") != words:
                self._say(quota, reason, words, warning=True)
            if words:
                self._told[key, reason] = words
            else:
                self._told.pop((key, reason), None)

    def _say(self, quota: FederatedQuota, reason: str, message: str, *, warning: bool = False) -> None:
        component = {"Sync": _SYNC, "Aggr": _STATUS}.get(reason[:4], _ENFORCEMENT)
        about = ObjectKey(GROUP, PLURAL, quota.namespace, quota.name)
        self._tell(Note(about, quota.uid, API_VERSION, KIND, reason, message[:1024], component, warning))


def _problems(view: QuotaView) -> tuple[tuple[str, str], ...]:
    return (
        ("SyncWorkFailed", view.unsynced),
        ("AggregateStatusFailed", view.unread),
        ("CollectOverallStatusFailed", view.unused),
    )


def _replacement(present: _Present, wanted: Manifest) -> bytes:
    """A patch that puts one status in the place of the one that was read, of the same object."""
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": present.version}
    uid = {"op": "test", "path": "/metadata/uid", "value": present.uid}
    return msgspec.json.encode([uid, version, {"op": "add", "path": "/status", "value": wanted}])

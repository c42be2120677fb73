"""Reads what reviews are compared with from the control plane, and writes what quotas let bindings use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.admission import Denied
from services._rules.admission.later.federated_quota import QuotaUse, check_quotas, usage_change
from services._rules.admission.webhook_table import COMPARED, PLACES, Place
from services._rules.admission.write_steps import Write
from services._rules.kubernetes.quantity import QuantityError

_PAGE: Final = 200
_MOST: Final = 2000
"""Objects of one kind that a review is compared with."""
_ATTEMPTS: Final = 5
"""How often a quota is read again because another binding used it at the same time."""
_QUOTAS: Final = "FederatedResourceQuota"


class StoredObjects:
    """The stored objects of one control plane, read for each review that needs them: never a copy that is out of date.

    `trouble` is why it could not be read the last time.
    """

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._client: KubeClient | None = None
        self._opening = asyncio.Lock()
        self.trouble = ""

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def customizations(self) -> list[Manifest] | Denied:
        """Every ResourceInterpreterCustomization; a Denied that says why they cannot be read."""
        try:
            return await self._list(PLACES[COMPARED], "")
        except _UNREAD as error:
            what = "the stored ResourceInterpreterCustomizations, with which this one is compared,"
            return await self._unread(what, error)

    async def use_quotas(self, write: Write) -> Denied | None:
        """Check a binding against the quotas of its namespace, and record what it uses; a Denied where it may not."""
        binding = write.new or {}
        try:
            if not usage_change(binding, write.old):
                return None
            for _ in range(_ATTEMPTS):
                quotas = await self._list(PLACES[_QUOTAS], write.namespace)
                decision = check_quotas(binding, write.old, quotas)
                if isinstance(decision, Denied):
                    return decision
                if await self._record(quotas, decision, dry_run=write.dry_run):
                    return None
        except QuantityError as problem:
            return Denied("validating", 400, f"an amount of the binding or of a quota cannot be read: {problem}")
        except _UNREAD as error:
            return await self._unread(f"the FederatedResourceQuotas of namespace {write.namespace}", error)
        text = (
            f"the FederatedResourceQuotas of namespace {write.namespace} changed {_ATTEMPTS} times meanwhile: try again"
        )
        return Denied("validating", 500, text)

    async def _record(self, quotas: Sequence[Manifest], uses: Iterable[QuotaUse], *, dry_run: bool) -> bool:
        """Write the use of each quota; false where one has changed since it was read."""
        client = await self.opened()
        by_name = {str(quota["metadata"]["name"]): quota for quota in quotas}
        for use in uses:
            quota = by_name[use.name]
            status = {**(quota.get("status") or {}), "overallUsed": use.overall_used}
            place, namespace = PLACES[_QUOTAS], quota["metadata"]["namespace"]
            path = resource_path(place.group, place.version, place.plural, namespace)
            params = {"dryRun": "All"} if dry_run else None
            try:
                body = {**quota, "status": status}
                await client.request("PUT", f"{path}/{use.name}/status", params=params, body=body)
            except ApiError as error:
                if error.status == 409:
                    return False
                raise
        return True

    async def _list(self, place: Place, namespace: str) -> list[Manifest]:
        client = await self.opened()
        path = resource_path(place.group, place.version, place.plural, namespace)
        found: list[Manifest] = []
        params: dict[str, str] = {"limit": str(_PAGE)}
        while True:
            page = await client.get(path, params=params)
            # Items of a list lack kind and version.
            kind: dict[str, Any] = {
                "apiVersion": f"{place.group}/{place.version}",
                "kind": str(page.get("kind") or "").removesuffix("List"),
            }
            found += [{**kind, **item} for item in page.get("items") or ()]
            following = (page.get("metadata") or {}).get("continue")
            if len(found) > _MOST:
                raise TooMany(f"there are more than {_MOST} {place.plural}")
            if not following:
                self.trouble = ""
                return found
            params = {"limit": str(_PAGE), "continue": str(following)}

    async def opened(self) -> KubeClient:
        """The client of the control plane; raises OSError or ValueError for a kubeconfig that cannot be used."""
        async with self._opening:
            if self._client is None:
                self._client = await KubeClient.from_kubeconfig(self._kubeconfig)
            return self._client

    async def _unread(self, what: str, error: Exception) -> Denied:
        if isinstance(error, ApiError) and error.status == 401:
            # The kubeconfig is read again: its credentials may have been replaced.
            await self.close()
        self.trouble = f"{what} cannot be read: {error}"[:1000]
        return Denied("validating", 500, f"{self.trouble}; nothing was stored, try again once they can be read")


class TooMany(ValueError):
    """More objects than a review is compared with."""


# The loader of kubeconfigs has errors of its own, which all are of these sorts.
_UNREAD: Final = (ApiError, Unreachable, OSError, ValueError, KeyError)

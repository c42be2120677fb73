"""Gives every namespace its default ServiceAccount and the certificate authority of the server.

Both come back when they are deleted. In a control plane they are not templates: the ConfigMap is known by its name, the
account by a label, which it loses as soon as someone gives it content of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import WorkQueue
from services._rules.policies.skip_rules import DEFAULT_ACCOUNT, ROOT_CA, STANDING_LABEL
from services.apiserver.controllers.in_process_client import LocalClient
from services.apiserver.core.request_context import LOOPBACK
from services.apiserver.core.status_errors import ApiError
from services.apiserver.store.store_port import Event, Key, Store

_KEPT: Final = (("serviceaccounts", DEFAULT_ACCOUNT), ("configmaps", ROOT_CA))
_CONTENT: Final = ("secrets", "imagePullSecrets", "automountServiceAccountToken")


class NamespaceObjects:
    """Follows namespaces; `authority` gives the certificate authority, empty for none to publish."""

    def __init__(self, store: Store, client: LocalClient, authority: Callable[[], bytes]) -> None:
        self._store = store
        self._accounts = client.as_user(LOOPBACK, "service-account-controller")
        self._authorities = client.as_user(LOOPBACK, "root-ca-cert-publisher")
        self._authority = authority
        self._queue: WorkQueue[str] = WorkQueue(self._handle)

    async def start(self) -> None:
        """Look at every namespace, then follow changes."""
        self._store.listen(self._on_event, ("", "namespaces"), *(("", resource) for resource, _ in _KEPT))
        for entry in list(self._store.list("", "namespaces")):
            self._queue.add(entry.key.name)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if key.resource == "namespaces":
            if event.prev is None:
                self._queue.add(key.name)
        elif (key.resource, key.name) in _KEPT and event.prev is not None:
            self._queue.add(key.namespace)

    async def _handle(self, namespace: str) -> float | None:
        entry = self._store.get(Key("", "namespaces", "", namespace))
        if entry is None or entry.obj["metadata"].get("deletionTimestamp"):
            return None
        try:
            await self._keep_account(namespace)
            authority = self._authority().decode()
            if authority:
                await self._authorities.publish({"name": ROOT_CA, "namespace": namespace}, {"ca.crt": authority})
        except ApiError as error:
            if error.code not in (403, 404, 409):
                raise  # Others mean that the namespace goes away, or that someone else was first.
        return None

    async def _keep_account(self, namespace: str) -> None:
        account = self._accounts.get("v1", "serviceaccounts", namespace, DEFAULT_ACCOUNT)
        if account is None:
            meta = {"name": DEFAULT_ACCOUNT, "namespace": namespace, "labels": {STANDING_LABEL: "true"}}
            await self._accounts.create("v1", "serviceaccounts", {"metadata": meta})
        elif _owned(account):
            gone = {"metadata": {"labels": {STANDING_LABEL: None}}}
            await self._accounts.patch("v1", "serviceaccounts", namespace, DEFAULT_ACCOUNT, gone)


def _owned(account: Manifest) -> bool:
    """Whether someone gave an account content of their own that still has the label."""
    meta = account["metadata"]
    labels = meta.get("labels") or {}
    return STANDING_LABEL in labels and (
        len(labels) > 1 or bool(meta.get("annotations")) or any(name in account for name in _CONTENT)
    )

"""Fills Secrets of service accounts with a token, and deletes them with their account."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import WorkQueue
from services.apiserver.auth.service_accounts import ACCOUNT_UID, ServiceAccounts, secret_claims
from services.apiserver.auth.token_signing import ServiceAccountTokens
from services.apiserver.core.cloning import clone
from services.apiserver.core.request_context import LOOPBACK, Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.groups.config import ACCOUNT_NAME, ACCOUNT_TOKEN
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import Entry, Event, Key
from services.apiserver.writes.deletion import DeleteOptions, Deleter
from services.apiserver.writes.object_writes import Objects

_WORD: Final = f'"{ACCOUNT_TOKEN}"'.encode()

Account = tuple[str, str]
"""Namespace and name."""


class TokenSecrets:
    """Follows Secrets of type kubernetes.io/service-account-token and the accounts that they name.

    A Secret gets `token`, `namespace` and `ca.crt`, each where it is missing. One whose account does not exist is
    deleted, as kube-controller-manager does.
    """

    def __init__(
        self, objects: Objects, deleter: Deleter, signer: ServiceAccountTokens, authority: Callable[[], bytes]
    ) -> None:
        self._objects = objects
        self._deleter = deleter
        self._signer = signer
        self._authority = authority
        self._accounts = ServiceAccounts(objects.store)
        self._secrets: dict[Account, set[Key]] = {}
        self._queue: WorkQueue[Key] = WorkQueue(self._handle)
        self._call = Call(LOOPBACK, manager="token-controller")

    async def start(self) -> None:
        """Look at every Secret once, then follow changes."""
        self._objects.store.listen(self._on_event, ("", "serviceaccounts"), ("", "secrets"))
        for entry in list(self._objects.store.list("", "secrets")):
            self._take(entry)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if key.resource == "serviceaccounts":
            for secret in self._secrets.get((key.namespace, key.name), ()) if event.deleted else ():
                self._queue.add(secret)
        else:
            if event.deleted:
                self._drop(event.entry)
            else:
                self._take(event.entry)

    def _take(self, entry: Entry) -> None:
        if (account := _account_of(entry)) is not None:
            self._secrets.setdefault(account, set()).add(entry.key)
            self._queue.add(entry.key)

    def _drop(self, entry: Entry) -> None:
        account = _account_of(entry)
        if account is not None and (held := self._secrets.get(account)) is not None:
            held.discard(entry.key)
            if not held:
                del self._secrets[account]

    async def _handle(self, key: Key) -> float | None:
        entry = self._objects.store.get(key)
        kind = self._objects.registry.find("", "v1", "secrets")
        named = None if entry is None else _account_of(entry)
        if entry is None or kind is None or named is None:
            return None
        meta = entry.obj["metadata"]
        account = self._accounts.find(*named, uid=(meta.get("annotations") or {}).get(ACCOUNT_UID) or "")
        if account is None:
            if not meta.get("deletionTimestamp"):
                options = DeleteOptions({"preconditions": {"uid": meta["uid"]}}, {})
                await self._deleter.discard(kind, key, options, self._call, (404, 409))
        elif self._filled(entry.obj, account) is not entry.obj:
            await self._fill(kind, key, account)
        return None

    async def _fill(self, kind: Kind, key: Key, account: Manifest) -> None:
        def make(old: Manifest) -> Manifest:
            return clone(self._filled(old, account))

        try:
            await self._objects.update(kind, key.namespace, key.name, make, self._call, patch=True)
        except ApiError as error:
            if error.code != 404:
                raise

    def _filled(self, secret: Manifest, account: Manifest) -> Manifest:
        """The Secret with what it lacks, or itself."""
        data = dict(secret.get("data") or {})
        authority = self._authority()
        if authority and data.get("ca.crt") != _encoded(authority):
            data["ca.crt"] = _encoded(authority)
        if not data.get("namespace"):
            data["namespace"] = _encoded(account["metadata"]["namespace"].encode())
        if not data.get("token"):
            data["token"] = _encoded(self._signer.sign(secret_claims(secret, account)).encode())
        meta = secret["metadata"]
        annotations = {**(meta.get("annotations") or {}), ACCOUNT_UID: account["metadata"]["uid"]}
        if data == secret.get("data") and annotations == meta.get("annotations"):
            return secret
        return {**secret, "metadata": {**meta, "annotations": annotations}, "data": data}


def _account_of(entry: Entry) -> Account | None:
    """The account whose token a Secret holds; None for other Secrets."""
    # Most Secrets are of other types, which their bytes show without decoding.
    if _WORD not in entry.raw or entry.obj.get("type") != ACCOUNT_TOKEN:
        return None
    name = (entry.obj["metadata"].get("annotations") or {}).get(ACCOUNT_NAME)
    return (entry.key.namespace, name) if name else None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()

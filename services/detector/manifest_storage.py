"""Stores the manifests that decisions name, Secrets under the key of their namespace, before the decisions are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog
from msgspec import Struct

from schemas.keys import ObjectKey
from schemas.subjects import template as template_subject
from services._kit.base.log_errors import LogError, Refused, StreamFull
from services._kit.runtime.service import Context
from services.detector.effects import NeedKey
from services.detector.state import DetectorState, Key

Detecting = Context[DetectorState, Key]
_PATIENCE: Final = 2.0
_NO_KEY: Final = "no key is configured, so Secrets are not stored and not propagated; set FLEETLOG_SECRETS_KEY_FILE"

log = structlog.get_logger("detector")


class Store(Struct, frozen=True):
    """A decision waits until these manifests are stored."""

    key: Key
    blobs: Sequence[tuple[str, bytes]]
    secret: bool


class ManifestStorage:
    """What is stored or refused for the detector's decisions."""

    def __init__(self) -> None:
        self.again: dict[Key, float] = {}
        """When a key is decided again that the log refused to store, by the monotonic clock."""
        self.refused: dict[ObjectKey, str] = {}
        """Secrets without a key, with their uid."""

    async def store(self, context: Detecting, effect: Store) -> None:
        """Store the bytes of one decision, which is made again then; when the log refuses, after a while."""
        try:
            if effect.secret and isinstance(effect.key, ObjectKey):
                for digest, data in effect.blobs:
                    if await context.blobs.put_secret(effect.key.namespace, data) != digest:
                        # The key was dropped since: the digest of the Secret is computed again.
                        context.projection.state.digest_keys.pop(effect.key.namespace, None)
            else:
                await context.blobs.put_many([data for _, data in effect.blobs])
        except LogError as error:
            log.warning("manifest_not_stored", key=str(effect.key), reason=str(error))
            self.again[effect.key] = context.clock.monotonic() + _PATIENCE
        context.mark((effect.key,))

    async def need_key(self, context: Detecting, effect: NeedKey) -> None:
        """Fetch the key of a namespace's Secrets; without one the Secret stays where it is, and that is on record."""
        key, vault = effect.key, context.blobs.vault
        try:
            if vault is None:
                raise Refused(0, _NO_KEY)
            context.projection.state.digest_keys[key.namespace] = await vault.digests(key.namespace)
        except StreamFull as error:
            self._later(context, key, error)
        except Refused as error:
            if self.refused.get(key) != effect.uid:
                self.refused[key] = effect.uid
                context.projection.state.waiting.discard(key)
                log.warning("secret_refused", key=str(key), reason=str(error))
                await context.appender.park(key, str(error), 0, template_subject(key))
            return
        except LogError as error:
            self._later(context, key, error)
        context.mark((key,))

    def _later(self, context: Detecting, key: ObjectKey, error: LogError) -> None:
        log.warning("key_not_read", namespace=key.namespace, reason=str(error))
        self.again[key] = context.clock.monotonic() + _PATIENCE

    def key_changed(self, context: Detecting, namespace: str) -> None:
        """A namespace's key was dropped: its present Secrets are stored again, under the new one."""
        state = context.projection.state
        state.digest_keys.pop(namespace, None)
        found = [key for key in state.templates if key.resource == "secrets" and key.namespace == namespace]
        for key in found:
            self.refused.pop(key, None)
        context.mark(found)

"""Reads the earlier versions of a policy or template from the log, and makes of one what can be written again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from schemas.codec import DecodeError, decode
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from schemas.subjects import policy, template
from schemas.topology import BLOBS
from services._kit.content.blobs import Blobs
from services._kit.log.fact_history import merged, stored_at
from services._kit.log.stream_port import Log
from services._rules.admission.radius_guard import CONFIRM_RADIUS
from services._rules.constants import CLUSTER_PROPAGATION_POLICY_ID_LABEL, PROPAGATION_POLICY_ID_LABEL
from services._rules.policies.policy_claims import Claim
from services.cli.common.moments import moment, stamp
from services.cli.common.running import Failed
from services.detector.policies.claim_writes import unclaimed
from services.detector.policies.policy_view import id_label

_OF_SERVER: Final = frozenset(
    {
        *("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"),
        *("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"),
    }
)
"""Metadata that a server keeps or that belongs to the object as it stands."""


class Version(Struct, frozen=True):
    """The object as it was from a position of FACTS on; without `event` it was deleted there."""

    position: int
    time: float
    event: PolicyChanged | TemplateChanged | None

    @property
    def generation(self) -> int:
        """The generation that the object had."""
        return self.event.generation if self.event is not None else 0


async def versions_of(logs: Mapping[str, Log], key: ObjectKey | PolicyKey) -> list[Version]:
    """Every version that the log knows, the oldest first; a policy that only waits for its end has none."""
    subject = policy(key) if isinstance(key, PolicyKey) else template(key)
    found: list[Version] = []
    for position, message in (await merged(logs, [subject])).items():
        try:
            event = decode(message.subject, message.data)
        except DecodeError:
            continue
        if isinstance(event, PolicyChanged) and event.deleting:
            continue
        known = event if isinstance(event, PolicyChanged | TemplateChanged) else None
        found.append(Version(position, stored_at(message), known))
    return found


async def manifest_of(logs: Mapping[str, Log], version: Version) -> Manifest:
    """The manifest of a version; raises LogError where its bytes have gone."""
    assert version.event is not None
    data = version.event.manifest
    if data is UNSET:
        assert isinstance(version.event, TemplateChanged)
        return decoded(await Blobs(logs[BLOBS.name]).get(version.event.digest))
    return decoded(bytes(data))


def decoded(data: bytes) -> Manifest:
    """A manifest from its JSON."""
    manifest: Manifest = msgspec.json.decode(data)
    return manifest


def chosen(versions: Sequence[Version], to: str, now: float, name: str) -> Version:
    """The version at a position or a time; raises Failed where the object did not exist then."""
    if to.isdecimal():
        earlier = [version for version in versions if version.position <= int(to)]
    else:
        at = moment(to, "--to", now)
        earlier = [version for version in versions if version.time <= at]
    if not earlier:
        first = f"; the log knows it from {stamp(versions[0].time)} (#{versions[0].position}) on" if versions else ""
        raise Failed(f"{name} was not on the log then{first}")
    if earlier[-1].event is None:
        raise Failed(f"{name} did not exist then: it was deleted at #{earlier[-1].position}")
    return earlier[-1]


def content(manifest: Manifest) -> Manifest:
    """What its author wrote: without status, what servers keep, claims, ids and confirmations."""
    cleaned = unclaimed(manifest)
    metadata = {name: value for name, value in cleaned["metadata"].items() if name not in _OF_SERVER}
    for part in ("labels", "annotations"):
        own = {name: value for name, value in (metadata.get(part) or {}).items() if name not in _BOOKKEEPING}
        metadata.pop(part, None)
        if own:
            metadata[part] = own
    kept = {name: value for name, value in cleaned.items() if name not in ("status", "metadata")}
    return {**kept, "metadata": metadata}


_CLAIMS: Final = (*Claim("-", "", "-").annotations(), *Claim("-", "-", "-").annotations())
_BOOKKEEPING: Final = frozenset({CONFIRM_RADIUS, *_CLAIMS})


def restored(version: Manifest, live: Manifest | None, key: ObjectKey | PolicyKey) -> Manifest:
    """What is written to bring a version back: over the object as it stands, or as a new one."""
    wanted = content(version)
    metadata = wanted["metadata"]
    ids = {PROPAGATION_POLICY_ID_LABEL, CLUSTER_PROPAGATION_POLICY_ID_LABEL}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name not in ids}
    annotations = dict(metadata.get("annotations") or {})
    if live is None:
        return {**wanted, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
    before = live["metadata"]
    # Claims on a template stay as they are, and so does the id of a policy.
    kept = {*ids, id_label(key)} if isinstance(key, PolicyKey) else ids
    labels |= {name: value for name, value in (before.get("labels") or {}).items() if name in kept}
    annotations |= {
        name: value
        for name, value in (before.get("annotations") or {}).items()
        if name in _BOOKKEEPING and name != CONFIRM_RADIUS
    }
    server = {name: value for name, value in before.items() if name in _OF_SERVER and name != "managedFields"}
    status = {"status": live["status"]} if "status" in live else {}
    return {**wanted, **status, "metadata": {**metadata, **server, "labels": labels, "annotations": annotations}}

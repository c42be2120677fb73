"""What a decision of the detector asks for beside facts: writes to the control plane, keys, Kubernetes Events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from schemas.keys import ObjectKey, PolicyKey
from services._rules.decision import Decision
from services._rules.kubernetes.event_objects import Note
from services.detector.policies.claim_writes import WriteClaim


class WritePolicyId(Struct, frozen=True):
    """Give a policy its permanent id."""

    key: PolicyKey
    uid: str
    label: str
    id: str


class KeepPolicy(Struct, frozen=True):
    """Add the finalizer to a policy that may claim something from now on."""

    key: PolicyKey
    uid: str
    finalizer: str


class ReleasePolicy(Struct, frozen=True):
    """Remove the finalizer from a policy that is deleted and claims nothing any more."""

    key: PolicyKey
    uid: str
    finalizer: str


class WriteRebalancer(Struct, frozen=True):
    """Write the status of a WorkloadRebalancer, if it still has this version; None removes a field."""

    key: PolicyKey
    uid: str
    resource_version: str
    status: dict[str, object]


class DeleteRebalancer(Struct, frozen=True):
    """Delete a WorkloadRebalancer that finished long enough ago, if it still has this version."""

    key: PolicyKey
    uid: str
    resource_version: str


class NeedKey(Struct, frozen=True):
    """A decision waits for the key of a namespace's Secrets."""

    key: ObjectKey
    uid: str


class Tell(Struct, frozen=True):
    """Something a person should know about an object that is on no log.

    `once` for a problem that every decision finds again while it lasts; else it happens whenever it is told.
    """

    note: Note
    once: bool = True


Effect = WriteClaim | WritePolicyId | KeepPolicy | ReleasePolicy | WriteRebalancer | DeleteRebalancer | NeedKey | Tell


class DetectorDecision(Decision, frozen=True):
    """Facts to append, the manifest bytes they name, and writes to the control plane that follow.

    `secret` marks bytes that must be encrypted before they are stored. After the decision, the state records of a
    template whether it is `waiting` for a policy, the PriorityClass by which it is `ranked` (empty: by none), and the
    override policies without which it is not propagated (`lacking`); None keeps the present value.
    """

    blobs: Sequence[tuple[str, bytes]] = ()
    secret: bool = False
    waiting: bool | None = None
    ranked: str | None = None
    lacking: Sequence[PolicyKey] | None = None


NOTHING: Final = DetectorDecision()

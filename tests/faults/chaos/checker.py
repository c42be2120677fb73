"""Compares the control plane with what clients were told, and every member with the control plane; by lists alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from schemas.manifest import Manifest
from services._rules.policies.skip_rules import ROOT_CA
from tests.faults.chaos import objects
from tests.faults.chaos.endpoint import Endpoint
from tests.faults.chaos.ledger import Key, Ledger
from tests.faults.chaos.objects import KINDS, MANAGED, PREFIX, Copy, State

_WRITTEN = (*KINDS, "propagationpolicies", "overridepolicies")
_SUMMED = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


async def _read(endpoint: Endpoint, kinds: tuple[str, ...]) -> dict[str, list[Manifest]] | None:
    """Every object of some kinds in namespaces of the run; None when anything could not be read."""
    lists = await asyncio.gather(*(endpoint.items(objects.path(kind)) for kind in kinds))
    found = {}
    for kind, items in zip(kinds, lists, strict=True):
        if items is None:
            return None
        # What every namespace is given is no client's.
        found[kind] = [
            item
            for item in items
            if item["metadata"].get("namespace", "").startswith(PREFIX) and item["metadata"]["name"] != ROOT_CA
        ]
    return found


async def check(control: Endpoint, members: Mapping[str, Endpoint], ledger: Ledger, counts: Counter[str]) -> list[str]:
    """What does not hold now; `counts` is told how often each invariant was looked at."""
    held, spaces, *inside = await asyncio.gather(
        _read(control, _WRITTEN),
        _namespaces(control),
        *(_read(endpoint, KINDS) for endpoint in members.values()),
        *(_namespaces(endpoint) for endpoint in members.values()),
    )
    if held is None or spaces is None or any(part is None for part in inside):
        return ["not everything could be read"]
    states = {
        (kind, item["metadata"]["namespace"], item["metadata"]["name"]): objects.state_of(kind, item)
        for kind, items in held.items()
        for item in items
        if "deletionTimestamp" not in item["metadata"]
    }
    complaints = _writes(states, ledger, counts)
    expected = _expected(states)
    names = list(members)
    for member, found in zip(names, inside[: len(names)], strict=True):
        complaints += _contents(member, expected, found, counts)
    for member, there in zip(names, inside[len(names) :], strict=True):
        counts["namespaces"] += 1
        if there != spaces:
            complaints.append(f"{member}: has namespaces {sorted(there)}, the control plane {sorted(spaces)}")
    return complaints + _sums(held["deployments"], expected, counts)


async def _namespaces(endpoint: Endpoint) -> set[str] | None:
    items = await endpoint.items(objects.path("namespaces"))
    if items is None:
        return None
    return {item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith(PREFIX)}


def _writes(states: Mapping[Key, State], ledger: Ledger, counts: Counter[str]) -> list[str]:
    """Every acknowledged write is there, or a later one; nothing is there that no client wrote."""
    complaints = []
    for key in ledger.entries.keys() | states.keys():
        counts["acknowledged writes"] += 1
        if wrong := ledger.wrong(key, states.get(key)):
            complaints.append(wrong)
    return complaints


def _expected(states: Mapping[Key, State]) -> dict[str, dict[Key, Copy]]:
    """By member: every copy that it must hold."""
    found: dict[str, dict[Key, Copy]] = {member: {} for member in objects.MEMBERS}
    for key, state in states.items():
        kind, namespace, _ = key
        if kind not in KINDS:
            continue
        moving = states.get(("propagationpolicies", namespace, "moving"))
        mirror = states.get(("overridepolicies", namespace, "mirror"))
        where = objects.copies(kind, state, moving.value if moving else "", mirror.value if mirror else "")
        for member, copy in where.items():
            if member:
                found[member][key] = copy
    return found


def _contents(
    member: str, expected: Mapping[str, Mapping[Key, Copy]], held: Mapping[str, list[Manifest]], counts: Counter[str]
) -> list[str]:
    """Each copy is as it should be, and there is none besides."""
    found = {
        (kind, item["metadata"]["namespace"], item["metadata"]["name"]): item
        for kind, items in held.items()
        for item in items
        if _counts(kind, item)
    }
    complaints = []
    for key in sorted(expected[member].keys() | found.keys()):
        wanted, item = expected[member].get(key), found.get(key)
        where = f"{member}: {'/'.join(key)}"
        if wanted is None:
            counts["orphans"] += 1
            complaints.append(f"{where} is an orphan: {_short(item)}")
            continue
        counts["contents"] += 1
        now = objects.copy_of(key[0], item) if item is not None else None
        if now != wanted:
            complaints.append(f"{where} should be {wanted}, is {now}")
    counts["orphans"] += len(found)
    return complaints


def _counts(kind: str, item: Manifest) -> bool:
    """Whether it has to do with us: our label, or that of the templates."""
    labels = item["metadata"].get("labels") or {}
    return labels.get(MANAGED) == "true" or labels.get("chaos") == "yes"


def _short(item: Manifest | None) -> str:
    return str((item or {}).get("metadata"))[:400]


def _sums(templates: list[Manifest], expected: Mapping[str, Mapping[Key, Copy]], counts: Counter[str]) -> list[str]:
    """The status of each Deployment is the sum over its members."""
    complaints = []
    for item in templates:
        metadata = item["metadata"]
        key = "deployments", metadata["namespace"], metadata["name"]
        total = sum(copies[key].replicas for copies in expected.values() if key in copies)
        status = item.get("status") or {}
        counts["sums"] += 1
        numbers = {status.get(field, 0) for field in _SUMMED}
        if numbers != {total} or status.get("observedGeneration") != metadata["generation"]:
            complaints.append(f"control plane: status of {'/'.join(key)} should sum up to {total}, is {status}")
    return complaints

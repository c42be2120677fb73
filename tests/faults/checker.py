"""The one checker of fault rounds: looks at members, templates, audit logs and the log itself, and lists complaints."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient, resource_path
from services._kit.log.stream_port import Message
from tests.faults.checker_log import causes, chains, folds, unrecorded
from tests.faults.rounds_load import Wanted, image_in, shares

OURS = "system:serviceaccount:karmada-cluster:"
_SUMMED = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


async def check_objects(
    control: KubeClient, members: Mapping[str, KubeClient], namespace: str, wanted: Mapping[str, Wanted], moved: bool
) -> list[str]:
    """Every member holds exactly what the policies say, and every template's status is the sum."""
    expected: dict[str, dict[str, tuple[int, str]]] = {member: {} for member in members}
    for name, one in wanted.items():
        if one.replicas:
            for member, replicas in shares(one, moved).items():
                expected[member][name] = (replicas, image_in(member, one))
    found = await asyncio.gather(
        *(_check_member(member, client, namespace, expected[member]) for member, client in members.items()),
        _check_templates(control, namespace, wanted, moved),
    )
    return [complaint for part in found for complaint in part]


async def _check_member(
    member: str, client: KubeClient, namespace: str, expected: Mapping[str, tuple[int, str]]
) -> list[str]:
    deployments, sets, pods = await asyncio.gather(
        _items(client, "apps", "deployments", namespace),
        _items(client, "apps", "replicasets", namespace),
        _items(client, "", "pods", namespace),
    )
    held = {
        item["metadata"]["name"]: (item["spec"]["replicas"], _image(item["spec"]["template"])) for item in deployments
    }
    complaints = list(_differences(f"{member}: deployment", expected, held))
    sets_of = {item["metadata"]["labels"]["app"] for item in sets}
    complaints += [f"{member}: replicasets of {name} are left over" for name in sorted(sets_of - expected.keys())]
    running: dict[str, list[str]] = {}
    for pod in pods:
        running.setdefault(pod["metadata"]["labels"]["app"], []).append(_image(pod))
    pods_held = {name: (len(images), ",".join(sorted(set(images)))) for name, images in running.items()}
    complaints += _differences(f"{member}: pods of", expected, pods_held)
    return complaints


async def _check_templates(control: KubeClient, namespace: str, wanted: Mapping[str, Wanted], moved: bool) -> list[str]:
    expected = {name: sum(shares(one, moved).values()) for name, one in wanted.items() if one.replicas}
    held: dict[str, object] = {}
    for item in await _items(control, "apps", "deployments", namespace):
        status = item.get("status") or {}
        numbers = {status.get(field, 0) for field in _SUMMED}
        current = status.get("observedGeneration") == item["metadata"]["generation"]
        held[item["metadata"]["name"]] = numbers.pop() if len(numbers) == 1 and current else status
    return list(_differences("control plane: status of", expected, held))


def _differences(what: str, expected: Mapping[str, object], held: Mapping[str, object]) -> Iterable[str]:
    for name in sorted(expected.keys() | held.keys()):
        if expected.get(name) != held.get(name):
            yield f"{what} {name}: should be {expected.get(name)}, is {held.get(name)}"


async def _items(client: KubeClient, group: str, plural: str, namespace: str) -> list[Manifest]:
    answer = await client.get(resource_path(group, "v1", plural, namespace))
    found: list[Manifest] = answer.get("items") or []
    return found


def _image(template: Manifest) -> str:
    return str(template["spec"]["containers"][0]["image"])


class Audits:
    """The audit logs of members, or of the control plane, from a position on."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._from = {member: path.stat().st_size if path.exists() else 0 for member, path in files.items()}

    def ours(self) -> list[tuple[str, Manifest]]:
        """Writes of our own identity since this was made; an agent's lease is no delivery."""
        return [found for found in self.by(OURS) if found[1]["resource"] != "leases"]

    def by(self, user: str) -> list[tuple[str, Manifest]]:
        """Writes of users whose names begin so, since this was made."""
        found = []
        for member, path in self._files.items():
            with path.open("rb") as file:
                file.seek(self._from[member])
                records = [msgspec.json.decode(line) for line in file if line.endswith(b"\n")]
            found += [
                (member, record) for record in records if record["user"].startswith(user) and not record.get("refused")
            ]
        return found

    def needless(self) -> list[str]:
        """Writes of objects that had that content already."""
        return [
            f"{member}: needless {record['verb']} of {record['resource']} {record['namespace']}/{record['name']}"
            for member, record in self.ours()
            if not record["changed"] and not record["subresource"]
        ]


def check_log(messages: list[Message], observed: list[Message], since: int) -> list[str]:
    """The chain of every subject is whole, folds are deterministic, withdrawals after `since` have causes."""
    return [
        *chains(messages, since),
        *causes(messages, since),
        *unrecorded(messages, observed, since),
        *folds(messages, observed),
    ]


def check_quiet(messages: Iterable[Message], since: int) -> list[str]:
    """After `since` there are leases and nothing else."""
    return [
        f"FACTS {message.seq}: {message.subject} was appended by a mere restart: {message.data[:300]!r}"
        for message in messages
        if message.seq > since and not message.subject.startswith("lease.")
    ]

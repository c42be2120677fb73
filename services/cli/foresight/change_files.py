"""Reads change sets: manifests of files and names of objects to delete, with the objects as they are stored now."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, ApiResource, KubeClient, resource_path
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services.cli.common.running import Failed
from services.cli.objects.interpret import STDIN, files_in
from services.cli.objects.kind_lookup import find, one_object
from services.detector.state import POLICY_KINDS

POLICY_GROUP: Final = "policy.karmada.io"
_UNFORESEEN: Final = "karmada.io"


class Given(Struct, frozen=True):
    """One object of a change set: where it was read from, its kind, and its manifest (None: to be deleted)."""

    file: str
    resource: ApiResource
    namespace: str
    name: str
    manifest: Manifest | None

    @property
    def key(self) -> ObjectKey | PolicyKey:
        """What the log calls it."""
        if self.resource.group == POLICY_GROUP and self.resource.kind in POLICY_KINDS:
            return PolicyKey(self.resource.kind, self.namespace, self.name)
        return ObjectKey(self.resource.group, self.resource.name, self.namespace, self.name)

    @property
    def path(self) -> str:
        """Where the control plane serves it."""
        one = self.resource
        return resource_path(one.group, one.version, one.name, self.namespace, self.name)

    def __str__(self) -> str:
        kind = self.resource.kind.lower()
        return f"{kind}.{self.resource.group}/{self.name}" if self.resource.group else f"{kind}/{self.name}"


class Wanted(Struct, frozen=True):
    """What files hold, each document with the name of its file, and what is to be deleted: kinds and names."""

    documents: Sequence[tuple[str, Any]]
    deletions: Sequence[tuple[str, str]]


def read_files(paths: Sequence[Path], deletions: Sequence[str], *, recursive: bool = False) -> Wanted:
    """Read what a change set is made of; raises Failed for what cannot be read, and for nothing."""
    documents = [document for path in files_in(paths, recursive) for document in _documents(path)]
    wanted = Wanted(documents, [one_object([word]) for word in deletions])
    if not wanted.documents and not wanted.deletions:
        raise Failed("nothing is named: use -f FILE, -f DIRECTORY, -f - or --delete KIND/NAME")
    return wanted


def read_set(wanted: Wanted, resources: Sequence[ApiResource], namespace: str) -> list[Given]:
    """The change set that files and names make; raises Failed for unknown kinds and twice the same."""
    found = [_given(name, document, resources, namespace) for name, document in wanted.documents]
    for kind, name in wanted.deletions:
        resource = find(resources, kind)
        found.append(Given("", resource, namespace if resource.namespaced else "", name, None))
    seen: set[ObjectKey | PolicyKey] = set()
    for given in found:
        if given.key in seen:
            raise Failed(f"{given} is named twice; a change set holds each object once")
        seen.add(given.key)
    return found


def _documents(path: Path) -> list[tuple[str, Any]]:
    import yaml

    name = "<stdin>" if path == STDIN else str(path)
    try:
        text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
        loaded = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{name} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise Failed(f"{name} is no YAML: {error}") from None
    found: list[Any] = []
    for document in loaded:
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
        found += items if isinstance(items, list) else [document]
    return [(name, document) for document in found if document is not None]


def _given(file: str, document: Any, resources: Sequence[ApiResource], namespace: str) -> Given:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise Failed(f"{file}: every document needs apiVersion, kind and metadata.name")
    api_version, kind = str(document.get("apiVersion")), str(document.get("kind"))
    resource = resource_of(resources, api_version, kind)
    if resource is None:
        raise Failed(f"{file}: the control plane serves no {kind} of {api_version}; see `kubectl api-resources`")
    place = str(metadata.get("namespace") or namespace) if resource.namespaced else ""
    wanted = {name: value for name, value in metadata.items() if name != "namespace"}
    if place:
        wanted["namespace"] = place
    return Given(file, resource, place, metadata["name"], {**document, "metadata": wanted})


def resource_of(resources: Sequence[ApiResource], api_version: str, kind: str) -> ApiResource | None:
    """The served kind of an apiVersion and a kind."""
    return next((one for one in resources if (one.api_version, one.kind) == (api_version, kind)), None)


def unforeseen(given: Given) -> str:
    """Why a plan cannot say what follows from an object; empty where it can."""
    group = given.resource.group
    if isinstance(given.key, PolicyKey) or not (group == _UNFORESEEN or group.endswith(f".{_UNFORESEEN}")):
        return ""
    why = "how objects are interpreted" if given.resource.kind in INTERPRETERS else "what other objects follow from"
    return f"{given}: {given.resource.kind} decides {why}; a plan covers policies, overrides and templates"


async def live_objects(client: KubeClient, change_set: Sequence[Given]) -> dict[ObjectKey | PolicyKey, Manifest]:
    """The objects of a change set as the control plane stores them; those that do not exist are left out."""
    gate = asyncio.Semaphore(16)

    async def read(given: Given) -> Manifest | None:
        async with gate:
            try:
                return await client.get(given.path)
            except ApiError as error:
                if error.status == 404:
                    return None
                raise

    found = await asyncio.gather(*(read(given) for given in change_set))
    return {given.key: live for given, live in zip(change_set, found, strict=True) if live is not None}

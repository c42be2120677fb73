"""Decides what a command line asks for: kinds with their names, kinds of a category, or the objects of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from services._kit.kube.client import ApiError, ApiResource, Unreachable
from services.cli.common.running import Failed
from services.cli.listing.listing_options import Query
from services.cli.listing.object_reading import Asked
from services.cli.members.clusters import Endpoint
from services.cli.objects.kind_lookup import discover, find, in_category, kind_of, split_target

_MANY: Final = 1000
"""Objects of files in one question."""


async def asked_of(query: Query, served: Sequence[ApiResource], away: Sequence[Endpoint], given: str) -> list[Asked]:
    """What is asked for, in its order; `given` is the namespace that was typed. Raises Failed."""
    if query.files:
        return _of_files(query, served, given)
    found: list[Asked] = []
    for word, names in split_target(query.words):
        category = in_category(served, word)
        if not category:
            found.append(Asked(await _resource(word, served, away), names, word))
        elif names:
            raise Failed(f"{word} is a category of kinds: names go with one kind only")
        else:
            found += [Asked(resource, (), resource.name) for resource in category]
    return found


async def _resource(word: str, served: Sequence[ApiResource], away: Sequence[Endpoint]) -> ApiResource:
    """The kind of a word; kinds that only members serve are found there. Raises Failed."""
    try:
        return find(served, word)
    except Failed:
        for endpoint in away:
            try:
                return find(await discover(endpoint.client), word)
            except (Failed, ApiError, Unreachable):
                continue
        raise


def _of_files(query: Query, served: Sequence[ApiResource], given: str) -> list[Asked]:
    """The objects that files name, one question for each kind and namespace."""
    from services.cli.objects.interpret import documents, files_in

    names: dict[tuple[ApiResource, str], dict[str, None]] = {}
    for path in files_in([Path(file) for file in query.files], query.recursive):
        for manifest in documents(path):
            kind, metadata = manifest.get("kind"), manifest.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            if not isinstance(name, str) or not name:
                raise Failed(f"{path}: apiVersion, kind and metadata.name are needed")
            resource = kind_of(served, str(manifest.get("apiVersion")), str(kind))
            own = str(metadata.get("namespace") or "") if resource.namespaced else ""
            if own and given and own != given:
                raise Failed(f"{path}: {kind} {name} is of namespace {own}, and -n says {given}")
            names.setdefault((resource, own), {})[name] = None
            if sum(map(len, names.values())) > _MANY:
                raise Failed(f"-f names more than {_MANY} objects")
    if not names:
        raise Failed("-f names no object")
    return [Asked(resource, tuple(found), resource.name, own) for (resource, own), found in names.items()]

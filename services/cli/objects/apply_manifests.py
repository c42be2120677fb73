"""Writes manifests of files to an endpoint: created, or changed in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, ApiResource, KubeClient, resource_path
from services.cli.common.printing import ending_of
from services.cli.common.running import Failed


def read_manifests(path: Path) -> list[Manifest]:
    """Every document of a YAML or JSON file; raises Failed where one is no object."""
    import yaml

    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=_loader()))
    except OSError as error:
        raise Failed(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Failed(f"{path} is no YAML: {error}") from None
    manifests = []
    for number, document in enumerate(documents, 1):
        if document is None:
            continue
        named = isinstance(document, dict) and (document.get("metadata") or {}).get("name")
        if not named or not document.get("kind") or not document.get("apiVersion"):
            raise Failed(f"{path}, document {number}: apiVersion, kind and metadata.name are needed")
        manifests.append(document)
    return manifests


def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


async def write(client: KubeClient, resources: list[ApiResource], manifest: Manifest, namespace: str) -> str:
    """Create an object, or merge the manifest into the one that is there; says what was done.

    Raises Failed when the endpoint does not serve the kind.
    """
    group, slash, version = str(manifest["apiVersion"]).partition("/")
    if not slash:
        group, version = "", group
    for resource in resources:
        if (resource.group, resource.version, resource.kind) == (group, version, manifest["kind"]):
            break
    else:
        raise Failed(f"the server serves no {manifest['kind']} of {manifest['apiVersion']}")
    metadata = manifest["metadata"]
    place = metadata.get("namespace") or namespace if resource.namespaced else ""
    path = resource_path(group, version, resource.name, place)
    try:
        await client.create(path, {**manifest, "metadata": {**metadata, "namespace": place} if place else metadata})
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        await client.patch(f"{path}/{metadata['name']}", manifest)
        return f"{ending_of(manifest)} configured"
    return f"{ending_of(manifest)} created"

"""The command `fleetlog restore control-plane`: writes what the log knows of a lost control plane into another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from schemas.codec import DecodeError, decode
from schemas.manifest import Manifest
from schemas.topology import BLOBS, FACTS, KEYS
from services._kit.base.log_errors import LogError
from services._kit.base.settings import SettingsError
from services._kit.content.blobs import Blobs
from services._kit.content.envelope_encryption import Vault
from services._kit.kube.client import ApiError, ApiResource, KubeClient, resource_path
from services._kit.log.stream_port import Log
from services._rules.secrets.secret_objects import is_secret
from services.cli.backup.recorded_objects_of_log import (
    Recorded,
    cluster_of,
    credentials,
    fresh,
    in_order,
    inline,
    missing_namespaces,
)
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.running import Failed, complain, patience
from services.cli.common.waiting import wait_until
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.cli.log.import_marking import mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


_SUBJECTS: Final = ("template.>", "policy.>", "cluster.*")
_SERVED_SECONDS: Final = 30.0


class Contents(Struct):
    """What is written, and what could not be read from the log."""

    manifests: list[Manifest]
    unreadable: list[str]


async def restore(access: LogAccess, key_file: Path | None, target: ControlPlaneOptions, *, dry_run: bool) -> int:
    """Write definitions, namespaces, policies, templates and Clusters; the exit code is 0 when all were.

    What is there already stays as it is. Nothing is delivered from then on until all of it was compared.
    """
    async with patience("restoring"), open_log(access) as connection:
        logs = streams(connection)
        async with _vault(logs[KEYS.name], key_file) as vault:
            contents = await _contents(logs[FACTS.name], Blobs(logs[BLOBS.name], vault=vault))
        if not contents.manifests:
            raise Failed("the log holds no template, policy or cluster: there is nothing to restore")
        if dry_run:
            _report(contents, Counter(manifest["kind"] for manifest in contents.manifests), "would be written")
            return 0
        async with open_control(target) as control:
            # Written first: the objects get other uids, and no service may act on the states in between.
            reason = f"the control plane is restored to {control.client.server}"
            await mark(logs[FACTS.name], reason, writing=True)
            problems = await _write_all(control.client, contents.manifests)
            # Services that run list everything from here on.
            await mark(logs[FACTS.name], reason)
    _report(contents, problems.written, "written")
    for problem in [*contents.unreadable, *problems.refused]:
        complain(problem)
    if problems.kept:
        complain(f"{problems.kept} objects were there already and stay as they are")
    complain(
        "start the services with this control plane. If they hold withdrawals because its identity is another one, "
        "accept it: fleetlog confirm-absence"
    )
    return 1 if problems.refused or contents.unreadable else 0


class _Result:
    """What became of the objects."""

    def __init__(self) -> None:
        self.written: Counter[str] = Counter()
        self.kept = 0
        self.refused: list[str] = []


def _report(contents: Contents, counts: Counter[str], done: str) -> None:
    named = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "nothing"
    complain(f"{done}: {named}")
    for namespace, name in sorted(credentials(contents.manifests)):
        complain(
            f"Secret {namespace}/{name} holds credentials of a member and is not on the log: create it again, or join "
            "the member again"
        )


@asynccontextmanager
async def _vault(log: Log, key_file: Path | None) -> AsyncIterator[Vault | None]:
    """What opens Secrets, None without a key file; raises Failed for one that cannot be used."""
    if key_file is None:
        yield None
        return
    try:
        vault = Vault(log, key_file)
    except SettingsError as error:
        raise Failed(str(error)) from None
    await vault.start()
    try:
        yield vault
    finally:
        await vault.stop()


async def _contents(facts: Log, blobs: Blobs) -> Contents:
    recorded, unreadable = Recorded(), []
    latest = {message.subject: message async for message in facts.read(_SUBJECTS)}
    for message in latest.values():
        try:
            recorded.take(decode(message.subject, message.data))
        except DecodeError as error:
            unreadable.append(f"#{message.seq} cannot be read: {error}")
    found = [fresh(bytes(policy.manifest)) for policy in recorded.policies]
    for template in recorded.templates:
        try:
            data = inline(template) or await blobs.get(template.digest)
        except LogError as error:
            secret = is_secret(template.api_version, template.kind)
            hint = "; give the master keys with --secrets-key-file" if secret else ""
            unreadable.append(f"{template.kind} {template.key}: its manifest cannot be read: {error}{hint}")
            continue
        found.append(fresh(data))
    found += [cluster_of(cluster) for cluster in recorded.clusters]
    return Contents([*missing_namespaces(found), *found], unreadable)


async def _write_all(client: KubeClient, manifests: Sequence[Manifest]) -> _Result:
    await apply_definitions(client, needed_definitions())
    result = _Result()
    for group in in_order(manifests):
        served: list[ApiResource] = []

        async def all_served(group: Sequence[Manifest] = group) -> str:
            nonlocal served
            served = await client.discover(preferred=False)
            lacking = sorted({_named(item) for item in group if _resource(served, item) is None})
            return f"the server serves no {', '.join(lacking)}" if lacking else ""

        if group:
            try:
                # A kind is served a moment after its definition.
                await wait_until(
                    "kinds", all_served, _SERVED_SECONDS if result.written["CustomResourceDefinition"] else 0.0
                )
            except Exception as error:  # noqa: BLE001 - each object of such a kind is reported below
                complain(str(error))
        for manifest in group:
            await _write(client, served, manifest, result)
    return result


async def _write(client: KubeClient, served: Sequence[ApiResource], manifest: Manifest, result: _Result) -> None:
    metadata = manifest["metadata"]
    name = f"{manifest['kind']} {metadata.get('namespace', '')}/{metadata['name']}".replace(" /", " ")
    resource = _resource(served, manifest)
    if resource is None:
        result.refused.append(f"{name}: the server serves no {_named(manifest)}")
        return
    namespace = metadata.get("namespace", "") if resource.namespaced else ""
    path = resource_path(resource.group, resource.version, resource.name, namespace)
    try:
        await client.create(path, msgspec.json.encode(manifest))
    except ApiError as error:
        if error.reason == "AlreadyExists":
            result.kept += 1
        else:
            # The words of a refused Secret could quote it.
            why = error.reason if manifest["kind"] == "Secret" else error.message
            result.refused.append(f"{name} was refused: {why or error.status}")
    else:
        result.written[manifest["kind"]] += 1


def _resource(served: Sequence[ApiResource], manifest: Manifest) -> ApiResource | None:
    wanted = (manifest["apiVersion"], manifest["kind"])
    return next((item for item in served if (item.api_version, item.kind) == wanted), None)


def _named(manifest: Manifest) -> str:
    return f"{manifest['kind']} of {manifest['apiVersion']}"

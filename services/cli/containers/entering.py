"""Makes log and control plane in containers usable: streams, definitions, aggregated kinds, and simulated members."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from schemas.manifest import Manifest
from services._kit.base.log_errors import Ambiguous, Unavailable
from services._kit.base.settings import log_settings
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.log import streams
from services.cli.attachments.member_attachments import enter_members
from services.cli.common.control_plane import read_kubeconfig
from services.cli.common.logbook import LogAccess, open_log
from services.cli.common.running import Failed, complain
from services.cli.common.stream_topology import asked_sizes
from services.cli.common.waiting import answers, opened, wait_until
from services.cli.installation.certificate_files import AGENTS
from services.cli.installation.install_crds import apply_definitions, needed_definitions

ADMIN_KUBECONFIG: Final = "kubeconfigs/admin"
_SECONDS: Final = 180.0
"""How long an API server may take to start beside all the others."""
PLURALS: Final = {
    "APIService": "apiservices",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Namespace": "namespaces",
    "Service": "services",
}
"""Kinds of the objects in aggregation.json."""


async def enter(directory: Path, push: Sequence[str], pull: Sequence[str], replicas: int) -> int:
    """Wait for log, control plane and members, write what is missing, and make the members join; the exit code.

    The log is that of the services' settings. Raises Failed for files that `prepare` should have made, NotReady for a
    server that does not answer.
    """
    control = directory / ADMIN_KUBECONFIG
    aggregated = _aggregated(directory / "aggregation.json")
    settings = log_settings(os.environ)
    await _streams(LogAccess(settings.nats_url, settings), replicas)
    await _answering("the control plane", control)
    async with opened(control) as client:
        complain(f"definitions: {await apply_definitions(client, needed_definitions())}")
        for manifest in aggregated:
            await _put(client, manifest)
    members = {name: directory / "members" / f"{name}.kubeconfig" for name in (*push, *pull)}
    for name, path in members.items():
        await _answering(name, path)
    agents = {name: directory / AGENTS / name / "kubeconfig" for name in pull}
    complain(f"joined: {await enter_members(control, members, agents)}")
    return 0


async def _streams(access: LogAccess, replicas: int) -> None:
    """Make the streams that every service needs before it starts; raises NotReady."""
    sizes = asked_sizes()

    async def make() -> str:
        try:
            async with open_log(access) as connection:
                await streams.apply(connection, replicas=replicas, sizes=sizes)
        except (Failed, Ambiguous, Unavailable) as error:
            # Several servers elect a leader first, and then one for each stream.
            return str(error)
        return ""

    await wait_until("the log", make, _SECONDS)


def _aggregated(path: Path) -> list[Manifest]:
    try:
        found: list[Manifest] = msgspec.json.decode(path.read_bytes())["items"]
    except (OSError, msgspec.MsgspecError, KeyError) as error:
        raise Failed(f"{path} cannot be used ({error}); `fleetlog containers prepare` makes it") from None
    return found


async def _answering(what: str, kubeconfig: Path) -> None:
    """Wait until a server has written its kubeconfig and answers; raises NotReady."""

    async def look() -> str:
        try:
            async with opened(read_kubeconfig(kubeconfig)) as client:
                return await answers(client)
        except (Failed, OSError) as error:
            return str(error)

    await wait_until(what, look, _SECONDS)


async def _put(client: KubeClient, manifest: Manifest) -> None:
    """Create an object, or bring the one that is there to the same content; references to a role cannot change."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    metadata = manifest["metadata"]
    path = resource_path(group, version, PLURALS[manifest["kind"]], metadata.get("namespace", ""))
    try:
        await client.create(path, manifest)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        content: Manifest = {name: manifest[name] for name in ("rules", "spec", "subjects") if name in manifest}
        if content:
            changed = {"metadata": {"annotations": metadata.get("annotations", {})}, **content}
            await client.patch(f"{path}/{metadata['name']}", changed)

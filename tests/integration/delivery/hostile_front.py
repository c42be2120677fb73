"""A lane to a member behind an address that can be made hostile."""

from __future__ import annotations

import ssl
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from schemas.manifest import Manifest
from services._kit.base.answer_limits import Limits
from services._kit.delivery import kind_caches as kinds
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_parts import LaneSettings
from services._kit.kube.client import KubeClient
from tests.integration.delivery.conftest import Desk, Member
from tests.support.hostile_server import HostileServer, hostile_server

LIMITS = Limits(first_byte_seconds=10.0, silence_seconds=10.0, answer_seconds=15.0, cache_bytes=20_000)


class Front:
    """A lane to a member behind an address that can be made hostile."""

    def __init__(self, server: HostileServer, lane: Lane, desk: Desk) -> None:
        self.server = server
        self.lane = lane
        self.desk = desk

    def give(self, manifest: Manifest) -> Any:
        """Have a manifest delivered; its key."""
        key = self.desk.give(manifest)
        self.lane.look_at(key)
        return key

    async def delivered(self, key: Any) -> None:
        """Return once the present work of an object is applied."""
        seq = self.desk.works[key][1]
        await self.desk.until(key, lambda event: event.work_seq == seq and event.applied)

    @property
    def kinds(self) -> kinds.Kinds:
        """What the lane keeps."""
        found = self.lane._acting
        assert found is not None
        return found.kinds


@asynccontextmanager
async def front(member: Member, directory: Path, identity: str = "") -> AsyncIterator[Front]:
    content = yaml.safe_load(member.running.kubeconfig.read_text())
    user = content["users"][0]["user"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    pair = directory / "pair.pem"
    pair.write_bytes(b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"]))
    context.load_cert_chain(pair)
    async with hostile_server(content["clusters"][0]["cluster"]["server"], context) as server:

        async def opened() -> KubeClient:
            made = KubeClient.from_token(server.url, "")
            made.limits = LIMITS
            return made

        desk = Desk(member.name)
        source = replace(desk.source, identity=lambda: identity)
        lane = Lane(member.name, opened, source, LaneSettings())
        lane.start()
        try:
            yield Front(server, lane, desk)
        finally:
            await lane.close()


def config_map(namespace: str, name: str, text: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"text": text},
    }

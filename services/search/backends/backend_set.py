"""The backends that registries name: one writer each, from the first registry that names it to the last."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from services._kit.kube.client import KubeClient
from services.search.backends.backend_writer import BackendWriter
from services.search.index.member_index import MemberIndex
from services.search.registries.member_facts import Gvr
from services.search.registries.wanted_kinds import OpenSearch, Wanted


class BackendSet:
    """All writers of the service."""

    def __init__(self, index: MemberIndex, control: KubeClient) -> None:
        self._index = index
        self._control = control
        self._writers: dict[OpenSearch, BackendWriter] = {}

    def want(self, cluster: str, wanted: Mapping[Gvr, Wanted]) -> None:
        """Write what is wanted of a member to the backends that it names, and nothing else."""
        kinds: dict[OpenSearch, dict[Gvr, str]] = {}
        for gvr, each in wanted.items():
            for backend in each.backends:
                kinds.setdefault(backend, {})[gvr] = each.kind
        for backend, writer in list(self._writers.items()):
            if writer.ended:
                del self._writers[backend]
            elif backend not in kinds:
                writer.want(cluster, {})
        for backend, of_backend in kinds.items():
            writer = self._writers.get(backend) or BackendWriter(backend, self._index, self._control)
            self._writers[backend] = writer
            writer.want(cluster, of_backend)

    @property
    def writers(self) -> list[BackendWriter]:
        """Those that work."""
        return list(self._writers.values())

    async def close(self) -> None:
        """Stop writing; documents stay as they are."""
        writers, self._writers = self._writers, {}
        await asyncio.gather(*(writer.close() for writer in writers.values()))

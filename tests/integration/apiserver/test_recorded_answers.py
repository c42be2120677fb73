"""The API server answers requests as Kubernetes 1.36 did, but for those that `unlike_kubernetes.toml` has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
import pytest

from services.apiserver.core.request_context import Identity
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from tests.support.recorded_requests import problems, scenarios

HERE: Final = Path(__file__).parent
RECORDED: Final = scenarios(HERE.parents[1] / "golden" / "data" / "apiserver-136-dev.jsonl.gz")
TOPICS: Final = sorted({scenario["topic"] for scenario in RECORDED})
LEAST: Final = 0.97


class Unlike(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Scenarios that are answered otherwise, for one reason."""

    reason: str
    ids: list[str]


UNLIKE: Final = msgspec.toml.decode((HERE / "unlike_kubernetes.toml").read_bytes(), type=dict[str, Unlike])
EXPECTED: Final = {one for unlike in UNLIKE.values() for one in unlike.ids}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    settings = Settings(
        data_dir=tmp_path,
        tokens={"admintoken": Identity("admin", "admin", ("system:masters",))},
        tls=False,
        controllers=False,
        protect_volumes=True,
        authorization="RBAC",
        service_cidr="10.0.0.0/16",
    )
    made = ApiServer(MemoryStore(), builtin_registry(), settings)
    await made.start()
    yield made
    await made.stop()


@pytest.mark.parametrize("topic", TOPICS)
async def test_requests_are_answered_as_kubernetes_does(server: ApiServer, topic: str) -> None:
    recorded = [scenario for scenario in RECORDED if scenario["topic"] == topic]
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer admintoken"}) as session:
        told = await problems(session, server.url, recorded)
    new = {name: text for name, text in told.items() if name not in EXPECTED}
    assert new == {}
    # One that is answered as recorded now does not need its reason any more.
    assert EXPECTED.intersection(scenario["id"] for scenario in recorded) - told.keys() == set()


def test_few_answers_are_unlike() -> None:
    assert len(EXPECTED) <= (1 - LEAST) * len(RECORDED)

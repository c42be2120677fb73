"""Who requires an object, and since when, is read from the bindings of its namespace."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.codec import Known
from schemas.keys import ObjectKey
from schemas.topology import STREAMS
from services.cli.queries.required_by import LISTED, Required, required_by
from tests.support.dependency_plane import config
from tests.support.facts import released
from tests.support.memory_log import MemoryLog
from tests.unit.pipeline.test_dependencies_delivered import APP, attached, requiring


async def found(*facts: Known, key: ObjectKey = APP, until: float | None = None) -> Required:
    logs = {stream.name: MemoryLog(stream) for stream in STREAMS}
    await logs["FACTS"].given(*facts)
    return await required_by(logs, key, until)


async def test_a_dependency_names_its_owners_and_since_when() -> None:
    owners = await found(requiring(), attached(), requiring("api"), requiring())
    text = owners.text(APP)
    assert text.startswith(f"{APP} follows those that require it: deployments.apps/default/api since ")
    assert "(#3), deployments.apps/default/nginx since " in text
    assert "(#1)" in text
    assert [item["position"] for item in owners.document()] == [3, 1]


async def test_an_owner_that_left_is_named_with_its_end() -> None:
    owners = await found(requiring(), attached(), requiring("api"), released(), replace(requiring("api"), requires=()))
    text = owners.text(APP)
    assert "Required before by deployments.apps/default/api until " in text
    assert "(#5), deployments.apps/default/nginx until " in text
    assert text.endswith("Nothing requires it now, and no policy claims it: it runs in no cluster.\n")
    assert owners.document() == []


async def test_a_claimed_dependency_has_clusters_of_its_own() -> None:
    text = (await found(requiring(), replace(attached(), attached=False))).text(APP)
    assert "beside the clusters of its own policy, those that require it" in text


async def test_many_owners_are_counted() -> None:
    owners = await found(*(requiring(f"web-{number:02}") for number in range(LISTED + 3)))
    assert " and 3 more.\n" in owners.text(APP)
    assert len(owners.document()) == LISTED + 3


async def test_what_nothing_requires_has_no_sentence() -> None:
    assert (await found(requiring(), key=config("other"))).text(config("other")) == ""


async def test_moments_in_the_past_are_answered() -> None:
    assert (await found(requiring(), until=1.0)).since == {}

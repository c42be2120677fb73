"""A member that refuses a Secret quotes it; what is reported and logged does not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import structlog

from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered
from schemas.keys import ObjectKey
from services._kit.content.blobs import digest_of
from services._kit.delivery.lane import Lane
from services._kit.delivery.lane_parts import LaneSettings, WorkSource
from services._kit.kube.client import KubeClient
from services._rules import constants as const
from services._rules.identities import work_id
from services.apiserver.admission.chain import Attributes
from services.apiserver.core.status_errors import ApiError

VALUE = "correct-horse-battery"
ENCODED = base64.b64encode(VALUE.encode()).decode()
KEYS = {kind: ObjectKey("", f"{kind.lower()}s", "default", "db") for kind in ("Secret", "ConfigMap")}


class Policy:
    """Refuses whatever it is shown, and says what that was."""

    def __init__(self, error: ApiError) -> None:
        self.error = error

    async def mutate(self, attributes: Attributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Refuse."""
        if attributes.name == "db":
            raise self.error


def quoting(reason: str, message: str) -> ApiError:
    return ApiError(422, reason, message)


REFUSALS = {
    "invalid": quoting(
        "Invalid", f'Secret "db" is invalid: data[password]: Invalid value: "{ENCODED}": must be longer'
    ),
    "webhook": quoting(VALUE, f'admission webhook "a.policies.example" denied the request: {VALUE} is weak'),
    "plain": quoting("", f"{ENCODED} does not please us"),
}


def work_of(kind: str) -> tuple[WorkRendered, bytes]:
    key = KEYS[kind]
    labels = {const.MANAGED_LABEL: const.LABEL_TRUE, const.WORK_ID_LABEL: work_id("m1", key, "u1")}
    manifest = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "db", "namespace": "default", "labels": labels},
        "data": {"password": ENCODED},
    }
    data = msgspec.json.encode(manifest)
    return WorkRendered(cluster="m1", key=key, uid="u1", api_version="v1", kind=kind, digest=digest_of(data)), data


@pytest.fixture
async def reported(member: Any, kind: str, refusal: str) -> AsyncIterator[asyncio.Queue[WorkObserved]]:
    """The reports of a lane to a member that refuses a work."""
    member.server.objects.admission.plugins.append(Policy(REFUSALS[refusal]))
    found: asyncio.Queue[WorkObserved] = asyncio.Queue()
    work, data = work_of(kind)

    async def blob(_: str) -> bytes:
        return data

    async def previous(*_: Any) -> None:
        return None

    source = WorkSource(
        work=lambda key: (work, 7) if key == work.key else None,
        observed=lambda _: None,
        blob=blob,
        previous=previous,
        report=found.put_nowait,
        now=lambda: 1.0,
    )
    lane = Lane("m1", lambda: KubeClient.from_kubeconfig(member.kubeconfig), source, LaneSettings())
    with structlog.testing.capture_logs() as logs:
        lane.start()
        lane.look_at(work.key)
        yield found
        await lane.close()
    assert not any(VALUE in str(line) or ENCODED in str(line) for line in logs)


@pytest.mark.parametrize("kind", ["Secret"])
@pytest.mark.parametrize("refusal", list(REFUSALS))
async def test_a_refused_secret_is_reported_without_its_value(
    reported: asyncio.Queue[WorkObserved], refusal: str
) -> None:
    event = await asyncio.wait_for(reported.get(), 60)
    assert (event.reason, event.applied, event.work_seq) == ("AppliedFailed", False, 7)
    assert "HTTP 422" in event.message
    assert VALUE not in event.message
    assert ENCODED not in event.message
    where = {"invalid": "data[password]: Invalid value", "webhook": "a.policies.example", "plain": "withheld"}
    assert where[refusal] in event.message


@pytest.mark.parametrize("kind", ["ConfigMap"])
@pytest.mark.parametrize("refusal", ["plain"])
async def test_what_is_not_secret_is_reported_as_it_was_said(reported: asyncio.Queue[WorkObserved]) -> None:
    event = await asyncio.wait_for(reported.get(), 60)
    assert f"{ENCODED} does not please us" in event.message

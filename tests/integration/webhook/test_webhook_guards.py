"""Guarded policies at both front doors: the same edits are measured, refused and confirmed."""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services._kit.base.clock import SystemClock
from services._kit.runtime import policy_guard
from services._kit.runtime.policy_guard import Measured, PolicyGuard, Question
from services._rules.admission.radius_guard import CONFIRM_RADIUS, MAX_RADIUS
from services._rules.admission.webhook_configurations import Target
from services.cli.common.waiting import opened
from services.cli.installation.install_crds import apply_webhooks
from tests.integration.webhook.running import DAY, make_pair, running
from tests.integration.webhook.test_webhook_same_answers import MERGE, POLICIES, Front, asking, front, of_kind, policy

WIDE_OVERRIDES = "/apis/policy.karmada.io/v1alpha1/clusteroverridepolicies"


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """What was measured: each edit disturbs seven workloads of nine."""
    found: list[Question] = []

    async def measured(question: Question, _: object) -> Measured:
        found.append(question)
        return Measured(7, 9)

    monkeypatch.setattr(policy_guard, "_measured", measured)
    return found


@pytest.fixture(params=["embedded", "webhook"])
async def made(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Front]:
    """A control plane with admission of its own, and one that asks the webhook."""
    door = front(tmp_path, admission=True) if request.param == "embedded" else asking(tmp_path, guard=PolicyGuard(10))
    async with door as found:
        yield found


def annotated(limit: str | None = None, confirm: str | None = None, **spec: Any) -> dict[str, Any]:
    """A patch."""
    values = {MAX_RADIUS: limit, CONFIRM_RADIUS: confirm}
    annotations = {name: value for name, value in values.items() if value is not None}
    return {"metadata": {"annotations": annotations}, **({"spec": spec} if spec else {})}


def with_guard(limit: str) -> dict[str, Any]:
    """A policy that is called a."""
    return {**policy(), "metadata": {"name": "a", **annotated(limit)["metadata"]}}


@pytest.mark.parametrize("wide", [False, True], ids=["policy", "override"])
async def test_edits_are_measured_refused_and_confirmed(made: Front, questions: list[Question], *, wide: bool) -> None:
    where = WIDE_OVERRIDES if wide else POLICIES
    given = of_kind("ClusterOverridePolicy", "web", overrideRules=[]) if wide else policy()
    edits = [{"resourceSelectors": [{"apiVersion": "v1", "kind": kind}]} for kind in ("Pod", "Secret", "Service")]
    code, answer = await made("POST", where, {**given, "metadata": {"name": "web", **annotated("5")["metadata"]}})
    assert code == 201, answer
    code, answer = await made("PATCH", f"{where}/web", annotated(**edits[0]), MERGE)
    assert code == 403
    kind = given["kind"].lower()
    said = f'admission webhook "{kind}.karmada.io" denied the request: the policy is guarded'
    assert answer["message"].startswith(said)
    assert "would move, change or end 7 workloads" in answer["message"]
    assert (questions[0].kind, questions[0].name) == (given["kind"], "web")
    assert (await made("PATCH", f"{where}/web", {"metadata": {"labels": {"a": "b"}}}, MERGE))[0] == 200
    assert len(questions) == 1, "a label moves nothing"
    code, answer = await made("PATCH", f"{where}/web", annotated(confirm="7", **edits[1]), MERGE)
    assert (code, answer["metadata"]["annotations"][CONFIRM_RADIUS].partition(" on ")[0]) == (200, "7 spent")
    assert (await made("PATCH", f"{where}/web", annotated(**edits[2]), MERGE))[0] == 403, "it is spent"
    code, answer = await made("DELETE", f"{where}/web")
    assert (code, f"kubectl annotate {kind}" in answer["message"]) == (403, True)
    measured = len(questions)
    assert questions[-1].manifest is None
    assert (await made("PATCH", f"{where}/web", annotated(confirm="any"), MERGE))[0] == 200
    assert (await made("DELETE", f"{where}/web"))[0] == 200
    assert len(questions) == measured, "nothing is measured whose radius does not matter"


async def test_malformed_guards_are_refused(made: Front, questions: list[Question]) -> None:
    code, answer = await made("POST", POLICIES, with_guard("many"))
    assert (code, "Invalid value: 'many'" in answer["message"], questions) == (403, True, [])


async def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    make_pair(tmp_path, now - DAY, now + 90 * DAY)
    async with (
        front(tmp_path / "api", admission=False) as made,
        running(tmp_path, SystemClock(), nats_url="nats://127.0.0.1:1", guard_seconds=25) as hook,
        opened(made.kubeconfig) as client,
    ):
        bundle = b64encode((tmp_path / "tls.crt").read_bytes()).decode()
        await apply_webhooks(client, Target(bundle, url=f"https://127.0.0.1:{hook.port}"))
        code, answer = await made("POST", POLICIES, with_guard("0"))
        assert code == 201, answer
        code, answer = await made("PATCH", f"{POLICIES}/a", annotated(preemption="Never", priority=3), MERGE)
        assert code == 403
        assert "could not be computed: the log cannot be read" in answer["message"]
        assert (await made("PATCH", f"{POLICIES}/a", annotated(confirm="any", priority=3), MERGE))[0] == 200

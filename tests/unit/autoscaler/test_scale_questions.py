"""Replicas that members keep by themselves: which members are asked, what answers change, and who sets replicas."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from schemas.codec import subject_of
from schemas.events.autoscaling import ClusterScale, MetricReading, PodReading
from schemas.events.rollup import ClusterStatusItem
from schemas.keys import PolicyKey
from services._kit.kube.client import Unreachable
from services._rules.constants import RETAIN_REPLICAS_LABEL
from services.autoscaler.decide import decide
from services.autoscaler.reading.member_pods import MemberPods, MemberScale
from services.autoscaler.reading.object_watch import Watched
from services.autoscaler.reading.round_rules import followed
from services.autoscaler.reading.rounds import Rounds
from services.autoscaler.reading.scale_access import Scale
from services.autoscaler.reading.scale_questions import MemberScales, corrected, doubtful
from services.autoscaler.replica_rules import follows_members, replicas_of_members
from services.autoscaler.scaling_effects import Rescale, Round
from services.autoscaler.settings import AutoscalerSettings
from services.autoscaler.state import AutoscalerState, Target, fold
from tests.support import facts
from tests.support.facts import KEY, raw

PATH = "/apis/apps/v1/namespaces/default/deployments/nginx/scale"
LABEL = {RETAIN_REPLICAS_LABEL: "true"}
MEMBERS = (facts.member("m1"), facts.member("m2"))
HPA = PolicyKey("FederatedHPA", "default", "web")


def projected(*events: Any) -> tuple[AutoscalerState, Target]:
    """The state after facts, and its Deployment."""
    state = AutoscalerState()
    for seq, event in enumerate((*MEMBERS, *events), 1):
        list(fold(state, seq, subject_of(event), event))
    return state, state.objects[KEY]


def reported(**replicas: int) -> Any:
    items = tuple(
        ClusterStatusItem(cluster=name, applied=True, health="Healthy", status=raw({"replicas": count}))
        for name, count in replicas.items()
    )
    return replace(facts.ready_in(), items=items)


def placed(**counts: int) -> Any:
    return replace(facts.placement(**counts), placement=raw(facts.DIVIDED), binding_generation=1)


def labelled(**labels: str) -> Any:
    return replace(facts.template(), labels=labels)


def test_members_are_asked_where_the_log_cannot_know() -> None:
    bound, shares = replace(facts.binding(), replicas=4), placed(m1=2, m2=2)

    def asked(*events: Any) -> list[str]:
        state, target = projected(bound, shares, *events)
        return doubtful(target, state.scales(target, 4))

    assert asked(labelled(), reported(m1=2, m2=2)) == []
    # On its way there, or changed by an override.
    assert asked(labelled(), reported(m1=2, m2=5)) == ["m2"]
    assert asked(labelled(**LABEL), reported(m1=2, m2=2)) == ["m1", "m2"]
    # Nothing is known of a member that has not reported.
    assert asked(labelled(**LABEL), reported(m1=2)) == ["m1"]
    # Only Deployments keep replicas by this label.
    state, target = projected(replace(bound, kind="StatefulSet"), shares, labelled(**LABEL), reported(m1=2, m2=2))
    assert doubtful(target, state.scales(target, 4)) == []


class Api:
    """A member that answers for one path; an exception is raised."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def request(self, method: str, path: str, timeout: float) -> bytes:
        del timeout
        assert (method, path) == ("GET", PATH)
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, bytes) else msgspec.json.encode(self.answer)


class Opened(MemberPods):
    """A member whose client is open."""

    def __init__(self, answer: Any) -> None:
        self._client = Api(answer)  # type: ignore[assignment]  # only `request` is used
        self._listed = asyncio.Event()
        self._listed.set()
        self._reflector = None
        self.trouble = "its pods are being listed"


GOOD = {"spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=web"}}


async def read(answers: dict[str, Any]) -> tuple[Any, list[bool]]:
    heard: list[bool] = []
    members = {name: Opened(answer) for name, answer in answers.items() if answer != "away"}
    found = await MemberScales(members, heard.append).read({name: {PATH} for name in answers}, 0.2)
    return found, heard


@pytest.mark.parametrize(
    "answer",
    [
        Unreachable("no answer"),
        None,
        b"<html>",
        {"spec": {"replicas": -1}},
        {"spec": {"replicas": 1 << 40}},
        {"spec": {"replicas": "many"}},
        "away",
    ],
    ids=["refused", "silent", "no JSON", "negative", "absurd", "a text", "not followed"],
)
async def test_answer_that_cannot_be_used_leaves_what_the_log_says(answer: Any) -> None:
    found, heard = await read({"m1": GOOD, "m2": answer})
    assert found == {("m1", PATH): MemberScale(3, 2)}
    assert sorted(heard) == [False, True]
    known = (ClusterScale("m1", 1, 1), ClusterScale("m2", 5, 5), ClusterScale("m3", away="the cluster is not ready"))
    assert corrected(known, PATH, found) == (ClusterScale("m1", 3, 2), *known[1:])


def cpu(percent: int, pods: int) -> MetricReading:
    counts = {"ready": pods, "sampled": pods, "matched": pods}
    return MetricReading(pods=PodReading(usage=percent * pods, requested=100 * pods, **counts))


def test_calibration_uses_the_replicas_that_members_have() -> None:
    # The template has 4, the members' own autoscalers made 8 of them: twice the load asks for 8 of the template's.
    spec = {
        "maxReplicas": 50,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    }
    scales = (ClusterScale("m1", 6, 6), ClusterScale("m2", 2, 2))
    given = Round(HPA, "u1", Raw(msgspec.json.encode(spec)), 1, KEY, 4, scales, (cpu(100, 8),))
    (rescale,) = [effect for effect in decide(None, given, facts.NOW).effects if isinstance(effect, Rescale)]
    assert rescale.replicas == 8


def test_template_that_follows_its_members_is_not_scaled() -> None:
    bound, shares = replace(facts.binding(), replicas=2), placed(m1=1, m2=1)
    state, target = projected(labelled(**LABEL), bound, shares, reported(m1=3, m2=2))
    assert follows_members(target)
    assert replicas_of_members(state, target) == 5
    given = Round(
        HPA,
        "u1",
        Raw(b'{"maxReplicas": 9}'),
        1,
        KEY,
        2,
        refusal=followed(HPA, "Deployment", "nginx"),
    )
    made = decide(None, given, facts.NOW)
    (event,) = made.events
    assert not any(isinstance(effect, Rescale) for effect in made.effects)
    assert [(item.type, item.status, item.reason) for item in event.conditions] == [  # type: ignore[attr-defined]
        ("AbleToScale", "False", "ReplicasFollowMembers")
    ]


@pytest.mark.parametrize(
    ("labels", "placement", "kind"),
    [({}, facts.DIVIDED, "Deployment"), (LABEL, facts.BOTH, "Deployment"), (LABEL, facts.DIVIDED, "StatefulSet")],
    ids=["without the label", "duplicated", "another kind"],
)
def test_other_templates_keep_their_replicas(labels: dict[str, str], placement: Any, kind: str) -> None:
    shares = replace(placed(m1=1, m2=1), placement=raw(placement))
    bound = replace(facts.binding(), replicas=2, kind=kind)
    state, target = projected(labelled(**labels), bound, shares, reported(m1=3, m2=2))
    assert not follows_members(target)
    assert replicas_of_members(state, target) is None


class Templates:
    """The control plane's scale of the template, and no metrics."""

    async def read(self, *_: object) -> Scale:
        return Scale(2, "app=web")

    async def ask(self, questions: frozenset[Any]) -> dict[Any, Any]:
        assert not questions
        return {}


async def rounds_of(*events: Any, syncer: bool, **answers: Any) -> Round:
    """What a round reads of the autoscaler of the Deployment; `answers` are the scales that members give."""
    state, _ = projected(replace(facts.binding(), replicas=2), placed(m1=1, m2=1), *events)
    settings = AutoscalerSettings(control_kubeconfig="unused", deployment_replicas_syncer=syncer, metrics_timeout=0.2)
    members: dict[str, Any] = {name: Opened(answer) for name, answer in answers.items()}
    templates: Any = Templates()
    reader = Rounds(settings, state, templates, templates, members, lambda _: None)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}
    watched = Watched("u1", 1, Raw(b'{"maxReplicas":9,"metrics":[]}'), {"annotations": {}}, {}, reference)
    (found,) = await reader.read({HPA: watched}, lambda: facts.NOW)
    assert sum(reader.answers["scale", result] for result in ("success", "error")) == len(answers)
    return found


async def test_rounds_count_what_members_have() -> None:
    kept = (labelled(**LABEL), reported(m1=3, m2=1))
    found = await rounds_of(*kept, syncer=False, m1=GOOD, m2=Unreachable("no answer"))
    assert found.refusal is None
    # The second did not answer: what it reported last counts.
    assert found.scales == (ClusterScale("m1", 3, 2), ClusterScale("m2", 1, 1))


async def test_rounds_leave_templates_alone_that_follow_their_members() -> None:
    kept = (labelled(**LABEL), reported(m1=3, m2=1))
    found = await rounds_of(*kept, syncer=True)
    assert found.refusal is not None
    assert found.refusal.reason == "ReplicasFollowMembers"
    assert (await rounds_of(labelled(), reported(m1=1, m2=1), syncer=True)).refusal is None

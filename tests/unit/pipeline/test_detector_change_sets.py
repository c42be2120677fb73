"""Members of a change set are taken together and decided as one; a set that stays incomplete is let go."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.codec import subject_of
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._kit.runtime.outbox import KeyedEvents, split, stand_alone
from services._rules.policies.change_set_marks import CHANGE_SET, mark_of, marked
from services.detector import kind_watch
from services.detector.app import Detector
from services.detector.change_sets import ChangeSets, SetKey
from services.detector.kind_watch import Watching
from services.detector.objects.manifest_content import stripped
from services.detector.settings import DetectorSettings
from services.detector.state import DetectorState, Key, fold, take_list
from tests.support.detector_harness import list_policies, policy
from tests.support.facts import KEY, NOW, deployment, key
from tests.support.waiting import eventually

POLICY = PolicyKey("PropagationPolicy", "default", "p")


def web(name: str = "nginx", **metadata: Any) -> Manifest:
    return deployment(2, **{"name": name, "uid": f"uid-{name}", **metadata})


def test_mark_is_read_back_and_never_propagated() -> None:
    made = marked(web(), "abc", 3)
    assert mark_of(made) == ("abc", 3)
    assert CHANGE_SET not in stripped(made)["metadata"]["annotations"]
    for wrong in ("abc", "abc/0", "abc/x", "a b/1", "abc/12345"):
        assert mark_of({"metadata": {"annotations": {CHANGE_SET: wrong}}}) is None


def test_members_wait_for_each_other() -> None:
    sets = ChangeSets()
    assert sets.offer(KEY, marked(web(), "s", 2), None) == ("s", False)
    assert sets.offer(POLICY, marked(policy("p"), "s", 2), None) == ("s", True)
    assert [member for member, _ in sets.release("s")] == [POLICY, KEY]
    later = marked(web(note="x"), "s", 2)
    assert sets.offer(KEY, later, marked(web(), "s", 2)) == ("", False), "an old mark holds nothing back"


def test_newest_state_of_a_member_counts() -> None:
    sets = ChangeSets()
    sets.offer(KEY, marked(web(), "s", 3), None)
    assert sets.offer(KEY, web(note="later"), None) == ("s", False)
    sets.offer(key("other"), marked(web("other"), "s", 3), None)
    assert sets.offer(key("other"), None, None) == ("s", False)
    assert sets.offer(POLICY, marked(policy("p"), "s", 3), None) == ("s", True)
    assert dict(sets.release("s"))[key("other")] is None


def test_object_that_bore_the_mark_before_is_no_news() -> None:
    sets = ChangeSets()
    known = marked(web(), "s", 5)
    assert sets.offer(KEY, marked(web(note="x"), "s", 5), known) == ("", False)
    assert not sets.held


class Ground:
    """A detector's watches and decisions without a control plane."""

    def __init__(self) -> None:
        self.detector = Detector(DetectorSettings(control_kubeconfig="x"))
        self.state: DetectorState = self.detector.new_state()
        list_policies(self.state)
        take_list(self.state, "deployments.apps", {})
        self.marked: list[Key] = []
        client: Any = None
        self.watching = Watching(client, self.state, self.marked.extend, period=1.0)

    def takes(self, key: ObjectKey | PolicyKey, manifest: Manifest | None) -> None:
        self.watching.take(key, manifest)


async def test_set_is_decided_as_one_batch() -> None:
    ground = Ground()
    ground.takes(KEY, marked(web(), "s", 3))
    ground.takes(key("b"), marked(web("b"), "s", 3))
    assert not ground.marked
    assert KEY not in ground.state.templates
    both = policy("p", resourceSelectors=[{"apiVersion": "apps/v1", "kind": "Deployment"}])
    ground.takes(POLICY, marked(both, "s", 3))
    assert ground.marked == [SetKey("s")]
    assert not ground.detector.decide(ground.state, KEY, NOW).events, "a member is not decided by itself"
    decision = ground.detector.decide(ground.state, SetKey("s"), NOW)
    kinds = [type(event).__name__ for event in decision.events]
    assert kinds == ["PolicyChanged", *["TemplateChanged", "BindingRequested"] * 2]
    assert decision.together
    pieces = split(KeyedEvents(SetKey("s"), decision.events, together=True), "detector", lambda _: 0)["FACTS"]
    assert not stand_alone(pieces), "few facts of a set are no reason to store them one by one"


async def test_set_that_is_on_record_lets_its_members_go() -> None:
    ground = Ground()
    ground.takes(KEY, marked(web(), "s", 2))
    ground.takes(POLICY, marked(policy("p"), "s", 2))
    decision = ground.detector.decide(ground.state, SetKey("s"), NOW)
    assert SetKey("s") in decision.also
    assert {KEY, POLICY} <= ground.state.sets.deciding.keys()
    for seq, event in enumerate(decision.events, 1):
        list(fold(ground.state, seq, subject_of(event), event))
    last = ground.detector.decide(ground.state, SetKey("s"), NOW)
    assert not last.events
    assert {KEY, POLICY} <= set(last.also), "from now on each is decided by itself"
    assert not ground.state.sets.deciding


async def test_incomplete_set_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_watch, "HELD_SECONDS", 0.01)
    monkeypatch.setattr(kind_watch, "DECIDED_SECONDS", 0.01)
    ground = Ground()
    ground.takes(KEY, marked(web(), "s", 2))
    await eventually(lambda: SetKey("s") in ground.marked)
    assert KEY in ground.state.templates
    await eventually(lambda: KEY in ground.marked)
    assert not ground.state.sets.deciding, "a set that does not get on record holds nothing up for ever"
    await ground.watching.stop()

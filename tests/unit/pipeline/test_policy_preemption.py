"""Policies take objects from each other, where the gate and their priorities let them (docs/policies.md)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from schemas.events.binding import BindingRequested
from services._rules import constants as const
from tests.support.policy_world import PolicyWorld, selector

WEB = selector("web")
WIDE = selector("web", "default")


def held_by(name: str, selects: dict[str, Any], *, preemption: bool = True, **spec: Any) -> PolicyWorld:
    """A Deployment `web` that a policy has claimed."""
    made = PolicyWorld(preemption=preemption)
    made.applies(name, selects, **spec)
    made.creates("web", {"app": "web"})
    made.settles()
    assert made.claim("web") == name
    made.reasons()
    return made


def always(made: PolicyWorld, name: str, selects: dict[str, Any], **spec: Any) -> None:
    made.applies(name, selects, preemption="Always", **spec)
    made.settles()


@pytest.mark.parametrize(
    ("holder", "taker", "taken"),
    [
        (("pp/a", {"priority": 2}), ("pp/b", {"priority": 2}), False),
        (("cpp/a", {"priority": 9}), ("pp/b", {"priority": 0}), True),
        (("cpp/a", {"priority": 1}), ("cpp/b", {"priority": 2}), True),
        (("pp/a", {"priority": -5}), ("cpp/b", {"priority": 9}), False),
    ],
    ids=["pp from pp with the same", "pp from cpp always", "cpp from cpp with more", "cpp from pp never"],
)
def test_directions_of_preemption(holder: Any, taker: Any, taken: bool) -> None:
    made = held_by(holder[0], selector(app="web"), **holder[1])
    always(made, taker[0], WIDE, **taker[1])
    winner = taker[0] if taken else holder[0]
    assert (made.claim("web"), made.policy("web")) == (winner, winner)
    assert ("PreemptPolicySucceed" in made.reasons()) == taken
    assert made.restarts() == []


def test_preemption_records_who_took_it_from_whom() -> None:
    made = held_by("cpp/a", WEB)
    always(made, "pp/b", WEB)
    binding = made.binding("web")
    assert binding is not None
    assert binding.reason == "PropagationPolicy/default/b preempts ClusterPropagationPolicy/_/a"
    labels = made.template("web")["metadata"]["labels"]
    assert const.CLUSTER_PROPAGATION_POLICY_ID_LABEL not in labels


def test_gate_off_takes_nothing_and_says_so() -> None:
    made = held_by("cpp/a", WEB, preemption=False)
    always(made, "pp/b", WEB, priority=9)
    (note,) = {(note.reason, note.key.name, note.warning) for note in made.notes}
    assert note == ("FieldNotActedOn", "b", True)
    assert "PropagationPolicyPreemption" in made.notes[0].message
    assert made.claim("web") == "cpp/a"


@pytest.mark.parametrize(
    "selects", [selector(), selector(app="web"), selector("other"), selector("web", "other")], ids=str
)
def test_selector_has_to_name_the_template(selects: dict[str, Any]) -> None:
    made = held_by("cpp/a", selector())
    always(made, "cpp/b", selects, priority=9)
    assert made.claim("web") == "cpp/a"


def test_cluster_policy_without_a_namespace_takes_nothing() -> None:
    made = held_by("cpp/a", WEB)
    always(made, "cpp/b", WEB, priority=9)
    assert made.claim("web") == "cpp/a"


def test_terminating_template_is_not_taken() -> None:
    made = PolicyWorld()
    made.applies("cpp/a", WEB)
    made.creates("web", deletionTimestamp="2027-01-15T08:00:00Z")
    made.settles()
    always(made, "pp/b", WEB)
    assert made.claim("web") == "cpp/a"


def test_unclaimed_template_is_matched_and_not_preempted() -> None:
    made = PolicyWorld()
    made.creates("web")
    made.settles()
    always(made, "pp/b", WEB)
    assert made.claim("web") == "pp/b"
    assert "PreemptPolicySucceed" not in made.reasons()


def test_lowered_priority_lets_the_highest_other_take_it() -> None:
    made = held_by("pp/a", WEB, priority=5)
    for name, priority in (("pp/b", 3), ("pp/c", 4)):
        always(made, name, WEB, priority=priority)
    assert made.claim("web") == "pp/a"
    made.applies("pp/a", priority=2)
    made.settles()
    assert (made.claim("web"), made.policy("web")) == ("pp/c", "pp/c")
    assert made.restarts() == []


def test_lowered_cluster_policy_loses_to_another() -> None:
    made = held_by("cpp/a", WIDE, priority=5)
    always(made, "cpp/b", WIDE, priority=4)
    made.applies("cpp/a", priority=3)
    made.settles()
    assert made.claim("web") == "cpp/b"


def test_preempting_becomes_effective_by_an_edit() -> None:
    made = held_by("pp/a", WEB)
    made.applies("pp/b", WEB, priority=1)
    made.settles()
    assert made.claim("web") == "pp/a"
    made.applies("pp/b", preemption="Always")
    made.settles()
    assert made.claim("web") == "pp/b"


def test_claim_that_no_selector_supports_can_be_taken() -> None:
    made = held_by("cpp/a", selector(app="web"))
    made.labels("web", app="other")
    made.settles()
    always(made, "pp/b", WEB)
    assert (made.claim("web"), made.policy("web")) == ("pp/b", "pp/b")


def test_taker_that_lacks_overrides_leaves_the_template() -> None:
    made = held_by("cpp/a", WEB)
    always(made, "pp/b", WEB, dependentOverrides=["o"])
    assert (made.claim("web"), made.policy("web")) == ("cpp/a", "cpp/a")
    made.applies("op/o")
    made.settles()
    assert (made.claim("web"), made.policy("web")) == ("pp/b", "pp/b")


def test_gate_that_is_turned_on_takes_effect() -> None:
    made = held_by("cpp/a", WEB, preemption=False)
    always(made, "pp/b", WEB)
    made.options = PolicyWorld().options
    assert [kind for kind in made.restarts() if kind != "PolicyChanged"] == ["TemplateChanged", "BindingRequested"]
    assert made.claim("web") == "pp/b"


@pytest.mark.parametrize("order", list(itertools.permutations(["cpp/a", "cpp/b", "pp/c", "pp/d"])), ids="-".join)
def test_any_order_of_preempting_policies_ends_the_same(order: tuple[str, ...]) -> None:
    priorities = {"cpp/a": 9, "cpp/b": 7, "pp/c": 1, "pp/d": 2}
    made = PolicyWorld()
    made.creates("web")
    for name in order:
        always(made, name, WIDE, priority=priorities[name])
    assert (made.claim("web"), made.policy("web")) == ("pp/d", "pp/d")
    assert sum(isinstance(event, BindingRequested) for event in made.log) <= len(order)

"""Whatever happens to policies and objects: decisions in any order and restarts in between end in the same facts."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.policy_world import PolicyWorld, policy_key, selector

NAMES = ("web", "api")
POLICIES = ("pp/a", "pp/b", "cpp/a", "cpp/c", "op/o", "cop/o")
SELECTORS = (
    selector("web"),
    selector("web", "default"),
    selector("api"),
    selector(app="one"),
    selector(app="two"),
    selector(),
)
PLACEMENTS = tuple({"clusterAffinity": {"clusterNames": names}} for names in (["m1"], ["m2"], ["m1", "m2"]))

applying = st.tuples(
    st.just("applies"),
    st.sampled_from(POLICIES[:4]),
    st.sampled_from(SELECTORS),
    st.fixed_dictionaries(
        {
            "priority": st.integers(0, 3),
            "placement": st.sampled_from(PLACEMENTS),
            "preemption": st.sampled_from(["Always", "Never"]),
            "activationPreference": st.sampled_from(["Lazy", None, None]),
            "dependentOverrides": st.sampled_from([["o"], [], [], []]),
        }
    ),
)
acting = st.one_of(
    applying,
    applying,
    st.tuples(st.just("deletes"), st.sampled_from(POLICIES)),
    st.tuples(st.just("overrides"), st.sampled_from(["op/o", "cop/o"])),
    st.tuples(st.just("creates"), st.sampled_from(NAMES), st.sampled_from(["one", "two"])),
    st.tuples(st.just("labels"), st.sampled_from(NAMES), st.sampled_from(["one", "two", None])),
    st.tuples(st.just("scales"), st.sampled_from(NAMES), st.integers(1, 4)),
    st.tuples(st.just("strips"), st.sampled_from(NAMES)),
    st.tuples(st.just("removes"), st.sampled_from(NAMES)),
    st.tuples(st.just("settles")),
    st.tuples(st.just("settles")),
)
histories = st.lists(acting, min_size=3, max_size=14)


def act(made: PolicyWorld, action: tuple[Any, ...], shuffle: random.Random | None) -> None:
    """Let a user act, if there is what the action is about."""
    what, *rest = action
    names = {name for name in POLICIES if policy_key(name) in made.policies}
    standing = what in ("labels", "scales", "strips", "removes") and made.key(rest[0]) in made.templates
    if what == "applies":
        made.applies(rest[0], rest[1], **rest[2])
    elif what == "overrides":
        made.applies(rest[0])
    elif what == "deletes" and rest[0] in names:
        made.deletes(rest[0])
    elif what == "creates" and made.key(rest[0]) not in made.templates:
        made.creates(rest[0], {"app": rest[1]})
    elif what == "labels" and standing:
        made.labels(rest[0], app=rest[1])
    elif what == "scales" and standing:
        made.scales(rest[0], rest[1])
    elif what == "strips" and standing:
        made.strips_labels(rest[0])
    elif what == "removes" and standing:
        made.removes(rest[0])
    elif what == "settles":
        made.settles(shuffle)


def played(history: list[tuple[Any, ...]], shuffle: random.Random | None = None) -> PolicyWorld:
    made = PolicyWorld()
    for action in history:
        act(made, action, shuffle)
    made.settles(shuffle)
    return made


def outcome(made: PolicyWorld) -> dict[str, Any]:
    """What is true in the end of every Deployment: claim, policy and what is asked for."""
    found = {}
    for name in NAMES:
        binding = made.binding(name)
        claim = made.claim(name) if made.key(name) in made.templates else None
        found[name] = (claim, made.policy(name), bytes(binding.spec) if binding is not None else None)
    return found


@settings(max_examples=120, deadline=None)
@given(histories, st.integers(0, 2**16))
def test_decisions_in_any_order_end_in_the_same_facts(history: list[tuple[Any, ...]], seed: int) -> None:
    assert outcome(played(history)) == outcome(played(history, random.Random(seed)))


@settings(max_examples=120, deadline=None)
@given(histories, st.randoms(use_true_random=False))
def test_restart_with_lists_in_any_order_appends_nothing(history: list[tuple[Any, ...]], order: random.Random) -> None:
    made = played(history)
    before = outcome(made)
    kinds = made.lists()
    order.shuffle(kinds)
    assert made.restarts(kinds) == []
    assert outcome(made) == before


@settings(max_examples=120, deadline=None)
@given(histories)
def test_settled_facts_are_not_decided_otherwise_again(history: list[tuple[Any, ...]]) -> None:
    made = played(history)
    made._mark([*made.policies, *made.templates])
    assert made.settles() == []

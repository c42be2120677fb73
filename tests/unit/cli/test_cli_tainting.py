"""Taints as typed, and what they make of the taints that are there."""

from __future__ import annotations

import pytest

from services.cli.common.running import Failed
from services.cli.members.taint import Changes, Taint, changed, parse, split_words

NOW = "2024-05-16T07:56:35Z"


def test_taints_are_read_in_every_form() -> None:
    assert parse(["a=b:NoSchedule", "example.com/c:NoExecute", "d:NoSchedule-", "e-"]) == Changes(
        add=(Taint("a", "NoSchedule", "b"), Taint("example.com/c", "NoExecute")),
        remove=(Taint("d", "NoSchedule"), Taint("e")),
    )


@pytest.mark.parametrize(
    ("specs", "word"),
    [
        (["a=b"], "no effect"),
        (["a:Sometimes"], "Sometimes"),
        (["=b:NoSchedule"], "KEY"),
        (["a=b c:NoSchedule"], "KEY"),
        (["a=1:NoSchedule", "a=2:NoSchedule"], "twice"),
        (["a=1:NoSchedule", "a:NoSchedule-"], "both"),
        (["a=1:NoSchedule", "a-"], "both"),
    ],
)
def test_malformed_taint_is_refused_with_its_reason(specs: list[str], word: str) -> None:
    with pytest.raises(Failed, match=word):
        parse(specs)


def test_the_same_key_may_have_two_effects() -> None:
    taints, verb = changed([], parse(["a:NoSchedule", "a:NoExecute"]), overwrite=False, now=NOW)
    assert verb == "tainted"
    assert taints == [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "a", "effect": "NoExecute", "timeAdded": NOW},
    ]


def test_another_value_needs_overwrite() -> None:
    present = [{"key": "a", "effect": "NoSchedule", "value": "1"}, {"key": "z", "effect": "NoExecute"}]
    changes = parse(["a=2:NoSchedule"])
    with pytest.raises(Failed, match="--overwrite"):
        changed(present, changes, overwrite=False, now=NOW)
    taints, verb = changed(present, changes, overwrite=True, now=NOW)
    assert verb == "modified"
    assert taints == [present[1], {"key": "a", "effect": "NoSchedule", "value": "2"}]


def test_the_same_taint_again_changes_nothing() -> None:
    present = [{"key": "a", "effect": "NoExecute", "value": "1", "timeAdded": "2020-01-01T00:00:00Z"}]
    taints, _ = changed(present, parse(["a=1:NoExecute"]), overwrite=False, now=NOW)
    assert taints == present


def test_removal_with_and_without_effect() -> None:
    present = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "a", "effect": "NoExecute"},
        {"key": "b", "effect": "NoExecute"},
    ]
    assert changed(present, parse(["a:NoExecute-"]), overwrite=False, now=NOW) == (
        [present[0], present[2]],
        "untainted",
    )
    assert changed(present, parse(["a-"]), overwrite=False, now=NOW) == ([present[2]], "untainted")
    assert changed(present, parse(["b-", "c:NoSchedule"]), overwrite=False, now=NOW)[1] == "modified"


def test_removing_a_missing_taint_is_an_error() -> None:
    with pytest.raises(Failed, match="not found"):
        changed([{"key": "a", "effect": "NoSchedule"}], parse(["a:NoExecute-"]), overwrite=False, now=NOW)


def test_arguments_are_names_and_taints() -> None:
    assert split_words(["clusters", "m1", "m2", "a=b:NoSchedule", "c-"]) == (["m1", "m2"], ["a=b:NoSchedule", "c-"])
    for words in ([], ["nodes", "m1", "a:NoSchedule"], ["cluster", "m1"], ["cluster", "a:NoSchedule"]):
        with pytest.raises(Failed):
            split_words(words)

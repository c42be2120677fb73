"""Which kind a word means, and which objects a command line names."""

from __future__ import annotations

import pytest

from services._kit.kube.client import ApiResource
from services.cli.common.running import Failed
from services.cli.objects.kind_lookup import find, one_object, split_target

VERBS = ("get", "list")
SERVED = [
    ApiResource(name="events", kind="Event", verbs=VERBS, short_names=("ev",), group="", version="v1"),
    ApiResource(name="bindings", kind="Binding", verbs=("create",), group="", version="v1"),
    ApiResource(
        name="deployments", kind="Deployment", verbs=VERBS, short_names=("deploy",), group="apps", version="v1"
    ),
    ApiResource(name="events", kind="Event", verbs=VERBS, short_names=("ev",), group="events.k8s.io", version="v1"),
]


@pytest.mark.parametrize(
    "word", ["deployments", "deployment", "Deployment", "deploy", "deployments.apps", "deploy.v1.apps"]
)
def test_every_spelling_finds_the_kind(word: str) -> None:
    assert find(SERVED, word) == SERVED[2]


@pytest.mark.parametrize(("word", "group"), [("events", ""), ("ev", ""), ("events.events.k8s.io", "events.k8s.io")])
def test_the_first_group_wins_unless_one_is_named(word: str, group: str) -> None:
    assert find(SERVED, word).group == group


@pytest.mark.parametrize("word", ["nope", "deployments.batch", "deploy.v2.apps", "bindings"])
def test_kind_that_cannot_be_listed_is_refused_by_name(word: str) -> None:
    with pytest.raises(Failed, match=word):
        find(SERVED, word)


def test_targets_in_every_form() -> None:
    assert split_target(["deploy"]) == [("deploy", ())]
    assert split_target(["deploy,svc"]) == [("deploy", ()), ("svc", ())]
    assert split_target(["deploy", "a", "b"]) == [("deploy", ("a", "b"))]
    assert split_target(["deploy/a", "svc/b", "deploy/c"]) == [("deploy", ("a", "c")), ("svc", ("b",))]


@pytest.mark.parametrize("words", [[], [","], ["deploy,svc", "a"], ["deploy/a", "b"], ["a/b/c"], ["/a"], ["a/"]])
def test_mixtures_are_refused(words: list[str]) -> None:
    with pytest.raises(Failed):
        split_target(words)


def test_one_object_is_exactly_one() -> None:
    assert one_object(["deploy", "a"]) == ("deploy", "a")
    assert one_object(["deploy/a"]) == ("deploy", "a")
    for words in (["deploy"], ["deploy", "a", "b"], ["deploy/a", "svc/b"]):
        with pytest.raises(Failed):
            one_object(words)

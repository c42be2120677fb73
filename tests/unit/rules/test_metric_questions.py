"""What paths of the metrics APIs ask for, and how members are asked."""

import pytest

from services._rules.metrics.metric_questions import (
    ExternalQuestion,
    Question,
    UsageQuestion,
    ValueQuestion,
    member_path,
    question_of,
)

USAGE, CUSTOM, EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"
ASKED: list[tuple[str, str, Question]] = [
    (USAGE, "pods", UsageQuestion("pods")),
    (USAGE, "namespaces/a/pods", UsageQuestion("pods", "a")),
    (USAGE, "namespaces/a/pods/web-1", UsageQuestion("pods", "a", "web-1")),
    (USAGE, "nodes", UsageQuestion("nodes")),
    (USAGE, "nodes/n1", UsageQuestion("nodes", "", "n1")),
    (CUSTOM, "namespaces/a/pods/*/hits", ValueQuestion("pods", "hits", "a")),
    (CUSTOM, "namespaces/a/deployments.apps/web/hits", ValueQuestion("deployments.apps", "hits", "a", "web")),
    (CUSTOM, "namespaces/a/metrics/hits", ValueQuestion("metrics", "hits", "a", "a")),
    (CUSTOM, "nodes/n1/load", ValueQuestion("nodes", "load", "", "n1")),
    (EXTERNAL, "namespaces/a/queue", ExternalQuestion("queue", "a")),
]


@pytest.mark.parametrize(("group", "path", "question"), ASKED)
def test_a_path_asks_a_question_and_members_the_same(group: str, path: str, question: Question) -> None:
    assert question_of(group, path.split("/")) == question
    assert member_path(group, "v1", question) == f"/apis/{group}/v1/{path}"


@pytest.mark.parametrize(
    ("group", "path"),
    [
        (USAGE, "pods/web-1"),
        (USAGE, "namespaces/a/nodes"),
        (USAGE, "namespaces/a/nodes/n1"),
        (USAGE, "namespaces/a/pods/web-1/x"),
        (USAGE, "namespaces"),
        (USAGE, "secrets"),
        (CUSTOM, "namespaces/a/pods/*"),
        (CUSTOM, "namespaces/a/pods/*/hits/more"),
        (CUSTOM, "pods"),
        (CUSTOM, "namespaces/a/metrics/"),
        (EXTERNAL, "queue"),
        (EXTERNAL, "namespaces/a/queue/x"),
        ("apps", "deployments"),
    ],
)
def test_other_paths_ask_nothing(group: str, path: str) -> None:
    assert question_of(group, path.split("/")) is None


@pytest.mark.parametrize("segment", ["", ".", "..", "a/b", "/"])
def test_segments_that_others_read_otherwise_ask_nothing(segment: str) -> None:
    assert question_of(USAGE, ["namespaces", segment, "pods"]) is None
    assert question_of(CUSTOM, ["namespaces", "a", "pods", segment, "hits"]) is None


def test_a_member_is_asked_with_an_encoded_path() -> None:
    question = ValueQuestion("pods", "a/../b?c", "n#", "x y")
    assert member_path(CUSTOM, "v1", question) == f"/apis/{CUSTOM}/v1/namespaces/n%23/pods/x%20y/a%2F..%2Fb%3Fc"

"""Logs of simulated containers: which lines there are, when, and what requests for them mean."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.apiserver.core.status_errors import ApiError
from services.member_sim.containers.line_selection import log_options
from services.member_sim.containers.log_lines import RATE, LogLines, stamped
from services.member_sim.containers.pod_containers import Run, find, run_with_log

BEGAN = 1_700_000_000.0


def pod(image: str = "nginx:1.27", rate: str = "", **status: Any) -> dict[str, Any]:
    annotations = {"annotations": {RATE: rate}} if rate else {}
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "u1", **annotations},
        "spec": {"containers": [{"name": "c", "image": image}], "initContainers": [{"name": "i", "image": "busybox"}]},
        "status": {"startTime": "2023-11-14T22:13:20Z", "containerStatuses": [{"name": "c", **status}]},
    }


def lines(run: Run, rate: str = "", image: str = "nginx:1.27") -> LogLines:
    return LogLines(find(pod(image, rate), "c"), run)


@given(st.integers(0, 5000), st.sampled_from(["", "0.01", "100", "1000000"]))
def test_times_of_lines_rise_and_count_them(number: int, rate: str) -> None:
    found = lines(Run(0, BEGAN), rate)
    moment = found.time(number)
    assert found.time(number + 1) >= moment
    assert found.until(moment + 1e-6) >= number + 1
    assert found.since(moment) <= number < found.until(moment + 1e-6)


def test_lines_are_the_same_each_time_and_differ_between_runs() -> None:
    first, again, other = lines(Run(0, BEGAN)), lines(Run(0, BEGAN)), lines(Run(1, BEGAN))
    assert [first.text(n) for n in range(20)] == [again.text(n) for n in range(20)]
    assert first.text(10) != other.text(10)
    assert '"GET /' in first.text(10)
    assert "level=info" in lines(Run(0, BEGAN), image="worker:1").text(10)


def test_no_line_is_older_than_its_run() -> None:
    found = lines(Run(0, BEGAN))
    assert found.until(BEGAN - 1) == 0
    assert found.until(BEGAN) == 1
    assert found.time(0) == BEGAN


def test_a_run_that_ended_says_how_and_nothing_more() -> None:
    found = lines(Run(0, BEGAN, BEGAN + 10, 1))
    total = found.until(BEGAN + 10)
    assert found.until(BEGAN + 10_000) == total
    assert found.text(total - 1) == "fatal: the process ends with exit code 1"
    assert all(found.time(number) <= BEGAN + 10 for number in range(total))
    assert found.until(BEGAN + 9.9) < total


def test_very_many_lines_are_found_without_making_them() -> None:
    found = lines(Run(0, BEGAN), "1e99")
    total = found.until(BEGAN + 1e7)
    assert 9e12 < total < 1.1e13
    assert found.since(BEGAN + 1e7 - 1) > total - 1_100_000


@pytest.mark.parametrize("rate", ["nan", "-1", "x", "inf", "0"])
def test_rates_that_are_none_are_harmless(rate: str) -> None:
    assert lines(Run(0, BEGAN), rate).until(BEGAN + 60) >= 3


def test_stamps_have_nine_digits() -> None:
    assert stamped(BEGAN + 0.5) == "2023-11-14T22:13:20.500000000Z"


def test_options_are_read() -> None:
    query = {"follow": ["true"], "tailLines": ["3"], "limitBytes": ["10"], "sinceSeconds": ["5"], "timestamps": [""]}
    found = log_options(query, "web", BEGAN)
    assert (found.follow, found.tail, found.limit, found.since, found.timestamps) == (True, 3, 10, BEGAN - 5, True)
    assert log_options({"follow": ["false"]}, "web", BEGAN).follow is False
    since = {"sinceTime": ["2023-11-14T22:13:20.123456789+00:00"]}
    assert log_options(since, "web", 0).since == pytest.approx(BEGAN + 0.123456)
    assert log_options({"sinceTime": ["2023-11-14T22:13:20Z"]}, "web", 0).since == BEGAN


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"tailLines": "-1"}, 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"tailLines": "x"}, 400, 'parsing "x": invalid syntax'),
        ({"limitBytes": "0"}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            {"sinceSeconds": "1", "sinceTime": "2023-11-14T22:13:20Z"},
            422,
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ({"sinceTime": "yesterday"}, 400, 'parsing time "yesterday" as RFC 3339'),
        ({"sinceTime": "2023-11-14T22:13:20"}, 400, "as RFC 3339"),
    ],
)
def test_wrong_options_are_refused(query: dict[str, str], code: int, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        log_options({name: [text] for name, text in query.items()}, "web", BEGAN)
    assert refused.value.code == code
    assert words in refused.value.message


TERMINATED = {"terminated": {"exitCode": 1, "startedAt": "2023-11-14T22:13:20Z", "finishedAt": "2023-11-14T22:13:30Z"}}
RUNNING = {"running": {"startedAt": "2023-11-14T22:13:40Z"}}


def test_the_run_that_is_meant_is_found() -> None:
    running = find(pod(state=RUNNING, lastState=TERMINATED, restartCount=2), "c")
    assert run_with_log(running, previous=False) == Run(2, BEGAN + 20)
    assert run_with_log(running, previous=True) == Run(1, BEGAN, BEGAN + 10, 1)
    crashing = find(pod(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=TERMINATED, restartCount=1), "c")
    assert run_with_log(crashing, previous=False) == Run(0, BEGAN, BEGAN + 10, 1)


@pytest.mark.parametrize(
    ("state", "previous", "words"),
    [
        (RUNNING, True, 'previous terminated container "c" in pod "web" not found'),
        (
            {"waiting": {"reason": "ContainerCreating"}},
            False,
            'container "c" in pod "web" is waiting to start',
        ),
        ({"waiting": {"reason": "ErrImagePull"}}, False, "is waiting to start: image can't be pulled"),
    ],
)
def test_a_container_without_log_is_named(state: dict[str, Any], previous: bool, words: str) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        run_with_log(find(pod(state=state), "c"), previous=previous)
    assert refused.value.code == 400


def test_a_container_without_status_waits() -> None:
    with pytest.raises(ApiError, match="is waiting to start: PodInitializing"):
        run_with_log(find(pod(), "i"), previous=False)

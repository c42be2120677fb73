"""What a deletion asks for, and the grace period and finalizers that follow from it."""

import datetime as dt
from typing import Any

import pytest

from services.apiserver.core.status_errors import ApiError
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.writes.delete_options import (
    DeleteOptions,
    finalizers_of,
    grace_of,
    mark,
    mark_graceful,
    namespace_finalizers,
)

REGISTRY = builtin_registry()
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def kind(api_version: str, name: str) -> Any:
    found = REGISTRY.by_api_version(api_version, name)
    assert found is not None
    return found


CONFIG, POD, JOB = kind("v1", "ConfigMap"), kind("v1", "Pod"), kind("batch/v1", "Job")


@pytest.mark.parametrize(
    ("given", "existing", "after"),
    [
        ({}, [], []),
        ({}, ["a"], ["a"]),
        ({"propagationPolicy": "Orphan"}, ["a"], ["a", "orphan"]),
        ({"propagationPolicy": "Foreground"}, ["a", "orphan"], ["a", "foregroundDeletion"]),
        ({"propagationPolicy": "Background"}, ["orphan", "a"], ["a"]),
        ({"orphanDependents": True}, [], ["orphan"]),
        ({"orphanDependents": False}, ["foregroundDeletion"], []),
        ({}, ["orphan"], ["orphan"]),
        ({}, ["foregroundDeletion", "orphan"], ["foregroundDeletion"]),
        ({}, ["orphan", "foregroundDeletion"], ["orphan"]),
    ],
)
def test_a_policy_is_a_finalizer(given: dict, existing: list, after: list) -> None:
    assert finalizers_of(CONFIG, existing, DeleteOptions(given, {})) == after


def test_some_kinds_orphan_unless_told_otherwise() -> None:
    assert finalizers_of(JOB, [], DeleteOptions({}, {})) == ["orphan"]
    assert finalizers_of(JOB, [], DeleteOptions({"propagationPolicy": "Background"}, {})) == []
    assert finalizers_of(kind("v1", "ReplicationController"), [], DeleteOptions(None, {})) == ["orphan"]


def test_events_own_nothing() -> None:
    for api_version in ("v1", "events.k8s.io/v1"):
        assert finalizers_of(kind(api_version, "Event"), ["a"], DeleteOptions({"orphanDependents": True}, {})) == ["a"]


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ({}, ["a"]),
        ({"propagationPolicy": "Orphan"}, ["a", "orphan"]),
        ({"orphanDependents": False}, ["a", "foregroundDeletion"]),
        ({"orphanDependents": True}, ["a", "orphan"]),
    ],
)
def test_namespaces_read_the_old_option_in_their_way(given: dict, after: list) -> None:
    assert namespace_finalizers(["a"], DeleteOptions(given, {})) == after


def pod(meta: dict | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": meta or {}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30, **spec}}


@pytest.mark.parametrize(
    ("old", "grace", "after"),
    [
        (pod(), None, (True, False, 30)),
        (pod(), 5, (True, False, 5)),
        (pod(), -1, (True, False, -1)),
        (pod(nodeName=""), 5, (True, False, 0)),
        (pod() | {"status": {"phase": "Succeeded"}}, None, (True, False, 0)),
        (pod({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}), None, (False, True, 0)),
        (pod({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}), 30, (False, True, 0)),
        (pod({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}), 5, (True, False, 5)),
        (pod({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 0}), 5, (False, False, 0)),
        (pod({"deletionTimestamp": "x"}), None, (False, False, 0)),
    ],
)
def test_a_grace_period_is_only_shortened(old: dict, grace: int | None, after: tuple) -> None:
    options = DeleteOptions({} if grace is None else {"gracePeriodSeconds": grace}, {})
    assert grace_of(POD, old, options) == after
    assert grace_of(CONFIG, old, options) == (False, False, 0)


def test_the_end_is_counted_from_the_first_deletion() -> None:
    meta: dict[str, Any] = {"generation": 1}
    mark_graceful(meta, 30, NOW)
    assert meta == {
        "generation": 2,
        "deletionTimestamp": "2026-01-01T00:00:30Z",
        "deletionGracePeriodSeconds": 30,
    }
    mark_graceful(meta, 5, NOW + dt.timedelta(seconds=20))
    assert (meta["deletionTimestamp"], meta["generation"]) == ("2026-01-01T00:00:05Z", 2)
    mark_graceful(meta, 1 << 62, NOW)
    assert meta["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    mark_graceful(meta, 7, NOW)
    assert meta["deletionGracePeriodSeconds"] == 7


def test_what_finalizers_keep_is_marked_once() -> None:
    meta: dict[str, Any] = {"generation": 1}
    mark(meta, NOW)
    mark(meta, NOW + dt.timedelta(days=1))
    assert meta == {"generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("body", "query", "fields"),
    [
        ({"propagationPolicy": "Odd"}, {}, ["propagationPolicy"]),
        ({"propagationPolicy": ""}, {}, ["propagationPolicy"]),
        (None, {"propagationPolicy": ""}, ["propagationPolicy"]),
        ({"propagationPolicy": "Odd", "orphanDependents": True}, {}, ["propagationPolicy", "propagationPolicy"]),
        ({"dryRun": ["All", "Odd"]}, {}, ["dryRun"]),
        (None, {"dryRun": ""}, ["dryRun"]),
        (None, {"dryRun": "Odd", "propagationPolicy": "Odd"}, ["propagationPolicy", "dryRun"]),
    ],
)
def test_options_that_mean_nothing_are_refused(body: dict | None, query: dict, fields: list) -> None:
    with pytest.raises(ApiError) as caught:
        DeleteOptions(body, query)
    assert caught.value.code == 422
    assert caught.value.details is not None
    assert [cause["field"] for cause in caught.value.details["causes"]] == fields


@pytest.mark.parametrize("seconds", ["", "x", "1.5", "9223372036854775808", "99999999999999999999999999"])
def test_seconds_in_the_query_are_a_number(seconds: str) -> None:
    with pytest.raises(ApiError) as caught:
        DeleteOptions(None, {"gracePeriodSeconds": seconds})
    assert (caught.value.code, "strconv.ParseInt" in caught.value.message) == (400, True)


def test_the_body_counts_before_the_query() -> None:
    options = DeleteOptions({"gracePeriodSeconds": 5}, {"gracePeriodSeconds": "7", "dryRun": "All"})
    assert (options.grace, options.dry_run) == (5, False)

"""What users of services may publish and hear follows from the topology, and covers what services do."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from schemas.shard_groups import group_names
from schemas.topology import KEYS, SERVICES, STREAMS, SUBJECTS, WITHOUT_LOG
from services._kit.log.stream_port import match
from services._kit.runtime.runner import filters_of
from services._kit.runtime.service import BaseService
from services._rules.identity.accounts import Passwords, accounts_config
from services._rules.identity.service_rights import (
    COMMAND_INBOXES,
    OTHER_ACCOUNTS,
    inbox_prefix,
    pattern_of,
    rights_of,
    streams_read,
    writers_of,
)
from services.cli.secrets.secret_keys import READERS

ROOT = Path(__file__).parents[3]
WITH_LOG = [service for service in SERVICES if service not in WITHOUT_LOG]


def of_streams(service: str) -> set[str]:
    """Patterns that a service may publish on and that streams store."""
    patterns = {pattern.partition(".")[0] for stream in STREAMS for pattern in stream.subjects}
    return {subject for subject in rights_of(service).publish if subject.partition(".")[0] in patterns}


def test_every_subject_has_a_writer_that_is_known() -> None:
    for subject in SUBJECTS:
        assert set(writers_of(subject)) <= set(SERVICES), subject.pattern
        stream = next(stream for stream in STREAMS if stream.name == subject.stream)
        for pattern in writers_of(subject).values():
            within = pattern.replace("*", "x").replace(">", "x.y")
            assert any(match(one, within) for one in stream.subjects), pattern
    by_commands = {subject.pattern for subject in SUBJECTS if not writers_of(subject)}
    assert by_commands == {"confirmation.<scope>", "restore.log", "unparked.<service>.<key>"}


def test_no_two_services_write_the_same_subjects() -> None:
    for subject in SUBJECTS:
        if subject.pattern in ("observed.<cluster>.<key>", "request.<cluster>.<side>"):
            continue
        patterns = writers_of(subject)
        for one, other in ((a, b) for a in patterns for b in patterns if a != b):
            both = match(patterns[one], patterns[other]) and patterns[other] not in rights_of(one).not_publish
            assert not both, f"{subject.pattern}: {one} may write what {other} writes"


@pytest.mark.parametrize("service", WITH_LOG)
def test_a_service_may_write_its_facets_and_nothing_more(service: str) -> None:
    own = {pattern for subject in SUBJECTS for name, pattern in writers_of(subject).items() if name == service}
    groups = {f"{kind}.{name}" for kind in ("lease", "restore", "parked") for name in group_names(service)[1:]}
    assert of_streams(service) - {"blob.*", "key.*", "blob.settled"} == own | groups
    assert ({"blob.*", "key.*"} <= of_streams(service)) is (service in ("detector", "override_renderer"))


@pytest.mark.parametrize("service", WITH_LOG)
def test_a_service_may_read_what_it_folds(service: str) -> None:
    module = import_module(f"services.{service}.app")
    (kind,) = (
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, BaseService) and getattr(kind, "name", "") == service
    )
    assert set(filters_of(kind)) <= set(streams_read(service))
    for subject in SUBJECTS:
        if service in subject.readers:
            assert subject.stream in streams_read(service)


@pytest.mark.parametrize("service", SERVICES)
def test_keys_are_read_by_those_with_a_master_key(service: str) -> None:
    asked = [subject for subject in rights_of(service).publish if subject.startswith("$JS.API.") and "KEYS" in subject]
    assert any("GET.KEYS" in subject for subject in asked) is (service in READERS)
    assert (KEYS.name in streams_read(service)) is (service in READERS)


@pytest.mark.parametrize("service", SERVICES)
def test_answers_to_a_service_are_heard_by_it_alone(service: str) -> None:
    inbox = f"{inbox_prefix(service)}.x.1"
    hearing = [one for one in SERVICES if any(match(pattern, inbox) for pattern in rights_of(one).subscribe)]
    assert hearing == [service]
    for one in SERVICES:
        subscribe = rights_of(one).subscribe
        assert not any(match(pattern, "_INBOX.x.1") or match(pattern, "_R_.x") for pattern in subscribe)
        # An own prefix: who answers commands cannot forge answers to services.
        assert not any(match(pattern, inbox) for pattern in (COMMAND_INBOXES, OTHER_ACCOUNTS))


def test_an_unknown_service_has_no_rights() -> None:
    with pytest.raises(ValueError, match="'sheduler' is no service: detector"):
        rights_of("sheduler")


def test_users_stand_in_the_configuration_once_each() -> None:
    text = accounts_config(Passwords(hub="h", services=dict.fromkeys(WITH_LOG, 'p"'), observer="o", system="s"), [])
    for user in (*WITH_LOG, "hub", "observer", "system"):
        lines = [line for line in text.splitlines() if f'user: "{user}"' in line or f"user: {user}," in line]
        assert len(lines) == 1, user
        assert ("permissions" in lines[0]) is (user in WITH_LOG)
    assert 'password: "p\\""' in text
    assert "$SYS" not in accounts_config(Passwords(hub="h"), [])


def test_patterns_of_families() -> None:
    found = {subject.pattern: pattern_of(subject) for subject in SUBJECTS}
    assert found["work.<cluster>.<key>"] == "work.>"
    assert found["cluster.<name>"] == "cluster.*"
    assert found["identity.control-plane"] == "identity.control-plane"


def test_services_with_requests_to_pull_members_hear_agents() -> None:
    asking = {
        service
        for service in SERVICES
        if any("PullMembers.open" in path.read_text() for path in (ROOT / "services" / service).rglob("*.py"))
    }
    assert {service for service in SERVICES if "tunnel.>" in rights_of(service).subscribe} == asking
    assert len(asking) > 2

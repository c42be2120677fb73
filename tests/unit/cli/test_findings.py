"""What the doctor finds in an installation, how much it matters, and which remedy it names."""

from __future__ import annotations

import pytest

from schemas.agent import Expiry
from schemas.events.control_plane import AbsenceHeld
from schemas.instance import InstanceReport, ParkedKey
from schemas.topology import OPTIONAL, SERVICES, WITHOUT_LOG
from services._rules.log.stream_limits import Fill
from services.cli.overview.findings import DAY, LAG, SILENT, Finding, findings, held_keys, serious
from services.cli.overview.installation_facts import Answer, Disk, Facts, ParkedRecord, Process, Store
from services.cli.overview.status_facts import Held, Member, Overview

NOW = 1_800_000_000.0
USUAL = [name for name in SERVICES if name not in OPTIONAL | WITHOUT_LOG]
M1 = Member("m1", "Pull", "True", "ClusterReady", "v1.31", "k1", "", deleting=False)


def report(service: str, instance: str = "", **more: object) -> InstanceReport:
    fields = {"leader": True, "version": "1.0", "leads": service != "gateway"} | more
    return InstanceReport(service=service, instance=instance or f"{service}-0", **fields)  # type: ignore[arg-type]


def healthy(**more: object) -> Facts:
    """An installation with nothing wrong, but for what is given."""
    facts = Facts(
        now=NOW,
        version="1.0",
        overview=Overview(members=[M1], leaders={name: f"{name}-0" for name in USUAL}),
        instances=[report(name) for name in USUAL],
        fills=[Fill(stream="FACTS", bytes=1, most=100, messages=1, refuses=True)],
        parked=[],
        processes=[Process("nats", running=True)],
        answers=[Answer("scheduler", ready=True)],
        disk=Disk("/d", 50 << 30, 100 << 30),
    )
    for name, value in more.items():
        setattr(facts, name, value)
    return facts


def the_finding(facts: Facts) -> Finding:
    (finding,) = findings(facts)
    assert finding.severity == "info" or finding.remedy
    return finding


def with_report(**more: object) -> list[InstanceReport]:
    return [report(name, **(more if name == "scheduler" else {})) for name in USUAL]


def test_nothing_is_found_where_all_is_well() -> None:
    assert findings(healthy()) == []


def test_a_silent_service_is_an_error_with_its_last_leader() -> None:
    finding = the_finding(healthy(instances=[report(name) for name in USUAL if name != "scheduler"]))
    assert (finding.severity, finding.about) == ("error", "scheduler")
    assert "scheduler-0" in finding.message


def test_heartbeats_of_an_older_version_count_as_life() -> None:
    instances = [report(name) for name in USUAL if name != "scheduler"]
    assert findings(healthy(instances=instances, leading={"scheduler": "scheduler-0"})) == []


def test_an_eviction_that_waits_is_named_with_its_reason() -> None:
    waits = {"deployments.apps/ns/web in m1": "jsonPath '{.replicas}': replicas is not found"}
    finding = the_finding(healthy(instances=with_report(facts={"postponed": waits})))
    assert (finding.severity, finding.about) == ("warning", "deployments.apps/ns/web in m1")
    assert "replicas is not found" in finding.message


def test_standbys_without_a_leader_are_an_error() -> None:
    finding = the_finding(healthy(instances=with_report(leader=False)))
    assert finding.message.startswith("no instance leads")


def test_an_optional_service_may_be_missing_until_it_led() -> None:
    leaders = dict.fromkeys(USUAL, "x") | {"descheduler": "descheduler-0"}
    assert the_finding(healthy(overview=Overview(members=[M1], leaders=leaders))).about == "descheduler"


@pytest.mark.parametrize(
    ("more", "severity", "words"),
    [
        ({"lag": {"FACTS": LAG + 1}}, "warning", "behind the log"),
        ({"blocked": 2}, "warning", "newer version"),
        ({"reasons": {"watches": "gone"}}, "warning", "watches: gone"),
    ],
)
def test_what_instances_say_of_themselves_is_found(more: dict[str, object], severity: str, words: str) -> None:
    finding = the_finding(healthy(instances=with_report(**more)))
    assert finding.severity == severity
    assert words in finding.message


def test_instances_of_two_versions_are_named() -> None:
    found = findings(healthy(instances=with_report(version="0.9")))
    assert [(one.severity, one.about) for one in found] == [
        ("warning", "versions"),
        ("info", "scheduler (scheduler-0)"),
    ]


def test_parked_keys_have_the_state_their_leader_tells() -> None:
    keys = (ParkedKey("a", "why"), ParkedKey("b", "why", dropped=True), ParkedKey("new", "why"))
    records = [
        ParkedRecord("scheduler", "a", "why", 1, NOW, 2),
        ParkedRecord("scheduler", "b", "why", 1, NOW),
        ParkedRecord("scheduler", "c", "why", 1, NOW),
        ParkedRecord("gone", "d", "why", 1, NOW),
        ParkedRecord("detector", "work.x", "why", 1, NOW, subject="work.x"),
        ParkedRecord("detector", "work.y", "why", 1, NOW, subject="work.y", readable=True),
    ]
    facts = healthy(instances=with_report(keys=keys, parked=2, dropped=1), parked=records)
    states = {record.key: state for record, state in held_keys(facts)}
    assert states == {
        "a": "parked",
        "b": "dropped",
        "c": "over",
        "d": "unknown",
        "work.x": "unreadable",
        "work.y": "over",
        "new": "parked",
    }
    assert {(one.severity, one.about) for one in findings(facts)} == {
        ("error", "scheduler"),
        ("info", "scheduler"),
        ("warning", "gone"),
        ("warning", "detector"),
    }


def test_more_keys_than_an_answer_names_are_unknown() -> None:
    instances = with_report(keys=(ParkedKey("a", "why"),), parked=5)
    facts = healthy(instances=instances, parked=[ParkedRecord("scheduler", "z", "why", 1, NOW)])
    assert ("z", "unknown") in {(record.key, state) for record, state in held_keys(facts)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ready": "False", "reason": "ClusterNotReachable", "message": "refused"}, "refused"),
        ({"stranger": "k2"}, "another cluster"),
        ({"expiring": "token expires at noon"}, "expires"),
    ],
)
def test_members_that_cannot_be_used_are_errors(changes: dict[str, object], words: str) -> None:
    fields = {name: getattr(M1, name) for name in M1.__struct_fields__} | changes
    seen = Overview(members=[Member(**fields)], leaders=dict.fromkeys(USUAL, "x"))
    finding = the_finding(healthy(overview=seen))
    assert (finding.severity, finding.about) == ("error", "member m1")
    assert words in finding.message


def test_a_member_that_was_not_heard_of_is_named() -> None:
    said = {"heard": {"m1": NOW - SILENT - 1}}
    assert "agent was heard of" in the_finding(healthy(instances=with_report(facts=said))).message
    assert findings(healthy(instances=with_report(facts={"heard": {"m1": NOW - 1}}))) == []


def test_held_withdrawals_name_the_command_that_ends_it() -> None:
    held = AbsenceHeld(
        scope="templates", reason="MassDisappearance", message="six", since=NOW, identity="u", expected="u", digest="d"
    )
    seen = Overview(members=[M1], leaders=dict.fromkeys(USUAL, "x"), held=[Held(held, 3)])
    assert "fleetlog confirm-absence templates" in the_finding(healthy(overview=seen)).remedy


@pytest.mark.parametrize(
    ("more", "severity", "about"),
    [
        ({"fills": [Fill(stream="FACTS", bytes=80, most=100, messages=1)]}, "warning", "stream FACTS"),
        ({"fills": [Fill(stream="FACTS", bytes=96, most=100, messages=1)]}, "error", "stream FACTS"),
        ({"store": Store(90, 100)}, "warning", "log"),
        ({"topology": ["stream FACTS: missing; apply the topology"]}, "error", "log"),
        ({"unchecked": {"log": "does not answer"}}, "error", "log"),
        ({"disk": Disk("/d", 100 << 20, 100 << 30)}, "error", "disk"),
        ({"processes": []}, "error", "installation"),
        ({"processes": [Process("nats", running=False), Process("x", running=True)]}, "error", "process nats"),
        ({"answers": [Answer("webhook", error="refused")]}, "error", "webhook"),
        ({"answers": [Answer("agent-m1", reasons={"log": "no"})]}, "warning", "agent-m1"),
        ({"control_plane": "refused"}, "error", "control plane"),
        ({"certificates": [Expiry(at=NOW - 1, what="the token")]}, "error", "the token"),
        ({"certificates": [Expiry(at=NOW + 5 * DAY, since=NOW - 300 * DAY, what="x.crt")]}, "warning", "x.crt"),
    ],
)
def test_every_other_trouble_is_found(more: dict[str, object], severity: str, about: str) -> None:
    finding = the_finding(healthy(**more))
    assert (finding.severity, finding.about) == (severity, about)


def test_a_short_lived_certificate_in_its_youth_is_fine() -> None:
    assert findings(healthy(certificates=[Expiry(at=NOW + DAY, since=NOW - 0.1 * DAY, what="t")])) == []


def test_only_notes_ask_for_nothing() -> None:
    assert not serious([Finding("info", "x", "y")])
    assert serious([Finding("info", "x", "y"), Finding("warning", "x", "y", "z")])

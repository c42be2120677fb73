"""Decides what is wrong with an installation, how much it matters, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct

from schemas.topology import OPTIONAL, SERVICES, WITHOUT_LOG
from services.cli.common.moments import age
from services.cli.overview.installation_facts import Facts, ParkedRecord

Severity = Literal["error", "warning", "info"]
ORDER: Final[tuple[Severity, ...]] = ("error", "warning", "info")

LAG: Final = 5_000
"""Messages behind the log from which on a service is said to be slow."""
STORE_SHARE: Final = 0.8
DISK_SHARE: Final = 0.1
DISK_BYTES: Final = 1 << 30
DAY: Final = 86_400.0
SOON: Final = 30 * DAY
SILENT: Final = 120.0
"""Seconds after which a member that was not heard of is named."""
NAMED: Final = 3


class Finding(Struct, frozen=True):
    """One thing that is wrong: with what, how, and the remedy. A finding of severity `info` needs no action."""

    severity: Severity
    about: str
    message: str
    remedy: str = ""


def findings(facts: Facts) -> list[Finding]:
    """Everything that is wrong, the worst first."""
    found = [
        *_log(facts),
        *_held(facts),
        *_services(facts),
        *_parked(facts),
        *_members(facts),
        *_evictions(facts),
        *_machine(facts),
        *_certificates(facts),
    ]
    return sorted(found, key=lambda finding: ORDER.index(finding.severity))


def serious(found: list[Finding]) -> bool:
    """Whether there is something to do."""
    return any(finding.severity != "info" for finding in found)


def held_keys(facts: Facts) -> list[tuple[ParkedRecord, str]]:
    """Every key with a record, and its state: `parked`, `dropped`, `unreadable`, `over`, or `unknown`.

    What a leader says of its keys counts more than the record; without an answer of a leader it is unknown.
    """
    answering = {report.service for report in facts.instances or () if report.leader or not report.leads}
    live = {(report.service, key.key): key for report in facts.instances or () for key in report.keys}
    full = {report.service for report in facts.instances or () if report.parked + report.dropped > len(report.keys)}
    known: dict[tuple[str, str], tuple[ParkedRecord, str]] = {}
    for record in facts.parked or ():
        key = live.pop((record.service, record.key), None)
        if key is not None:
            state = "dropped" if key.dropped else "parked"
        elif record.key == record.subject:
            state = "over" if record.readable else "unreadable"
        else:
            state = "over" if record.service in answering and record.service not in full else "unknown"
        known[record.service, record.key] = (record, state)
    for (service, name), key in live.items():
        record = ParkedRecord(service, name, key.reason, 0, 0.0)
        known[service, name] = (record, "dropped" if key.dropped else "parked")
    return sorted(known.values(), key=lambda each: (each[0].service, each[0].key))


def _log(facts: Facts) -> Iterator[Finding]:
    if "log" in facts.unchecked:
        remedy = "start the installation, or name the log with --dir or --nats; docs/tail-the-log.md has the settings"
        yield Finding("error", "log", facts.unchecked["log"], remedy)
    for problem in facts.topology or ():
        remedy = "start one service with FLEETLOG_APPLY_TOPOLOGY=true, or run `fleetlog up` again"
        yield Finding("error", "log", problem, remedy)
    for fill in facts.fills or ():
        if fill.alarming:
            remedy = f"give it more room: FLEETLOG_TOPOLOGY_BYTES={fill.stream}=<size> (docs/history.md)"
            yield Finding("error" if fill.at(0.95) else "warning", f"stream {fill.stream}", _before(fill.words), remedy)
    store = facts.store
    if store is not None and store.most > 0 and store.bytes > STORE_SHARE * store.most:
        message = f"the servers hold {store.bytes >> 20} of {store.most >> 20} MiB ({store.bytes / store.most:.0%})"
        yield Finding("warning", "log", message, "raise max_file_store of the servers, on a volume that has the room")


def _before(words: str) -> str:
    return words.partition(";")[0]


def _held(facts: Facts) -> Iterator[Finding]:
    found = facts.overview
    if found is None:
        return
    for held in found.held:
        event = held.event
        remedy = "" if held.confirmed else f"see what is missing, then: fleetlog confirm-absence {event.scope}"
        yield Finding("error", f"withdrawals in {event.scope}", f"held: {event.reason}: {event.message}", remedy)
    if found.restoring.holds:
        remedy = "wait for the services that are named; if they cannot: fleetlog log release (docs/backup.md)"
        yield Finding("error", "delivery", found.restoring.words, remedy)


def _services(facts: Facts) -> Iterator[Finding]:
    if facts.overview is None or facts.instances is None:
        return
    leaders = {report.service: report for report in facts.instances if report.leader}
    answering = {report.service for report in facts.instances}
    for name in SERVICES:
        if name in WITHOUT_LOG or name in leaders or name in facts.leading:
            continue
        led = name in facts.overview.leaders
        if name in answering and all(not report.leads for report in facts.instances if report.service == name):
            continue
        if not led and (name in OPTIONAL or name not in answering):
            if name not in OPTIONAL:
                yield Finding("warning", name, "no instance answers", f"start it: python -m services.{name}")
            continue
        said = "no instance leads" if name in answering else "no instance answers"
        last = facts.overview.leaders.get(name, "")
        former = f"; the last leader was {last}" if last else ""
        remedy = f"look at its logs (fleetlog up: DIR/logs/{name}.log) and start it again"
        yield Finding("error", name, f"{said}{former}", remedy)
    for report in facts.instances:
        about = f"{report.service} ({report.instance})"
        for check, reason in sorted(report.reasons.items()):
            if check != "projection" or not report.lag:
                yield Finding("warning", about, f"not ready: {check}: {reason}", "the reason says what it waits for")
        behind = sum(report.lag.values())
        if behind > LAG:
            remedy = "it catches up if CPU and disk allow; see fleetlog_log_lag in docs/metrics.md"
            yield Finding("warning", about, f"is {behind:,} messages behind the log", remedy)
        if report.blocked:
            message = f"{report.blocked} keys wait because a newer version wrote their events"
            yield Finding("warning", about, message, "run the newer version of this service")
        if report.version != facts.version:
            message = f"runs version {report.version}, this command is {facts.version}"
            yield Finding("info", about, message)
    versions = sorted({report.version for report in facts.instances})
    if len(versions) > 1:
        remedy = "finish the upgrade; events of the newer version hold keys of the older one"
        yield Finding("warning", "versions", f"instances run {', '.join(versions)}", remedy)


def _parked(facts: Facts) -> Iterator[Finding]:
    by_service: dict[tuple[str, str], list[ParkedRecord]] = {}
    for record, state in held_keys(facts):
        by_service.setdefault((record.service, state), []).append(record)
    for (service, state), records in by_service.items():
        if state == "over":
            continue
        some = ", ".join(record.key for record in records[:NAMED]) + ("…" if len(records) > NAMED else "")
        count = f"{len(records)} key{'s' if len(records) != 1 else ''}"
        match state:
            case "parked":
                remedy = f"mend the cause, then: fleetlog parked retry --service {service}"
                yield Finding("error", service, f"{count} parked: {some}: {records[0].reason}", remedy)
            case "unreadable":
                remedy = "a newer version wrote them, or they are damaged: upgrade, or fleetlog log verify"
                yield Finding("warning", service, f"{len(records)} events cannot be read: {some}", remedy)
            case "unknown":
                remedy = "fleetlog parked list says since when; the service has to run for more"
                yield Finding("warning", service, f"{count} may be parked, the service does not answer: {some}", remedy)
            case _:
                yield Finding("info", service, f"{count} given up by an operator: {some}")


def _members(facts: Facts) -> Iterator[Finding]:
    if facts.overview is None:
        return
    heard = facts.heard()
    for member in facts.overview.members:
        about = f"member {member.name}"
        if member.stranger:
            remedy = f"see what is missing, then: fleetlog confirm-absence member/{member.name}"
            yield Finding("error", about, "another cluster answers at its address", remedy)
        elif member.ready != "True" and not member.deleting:
            what = f"{member.reason or 'not ready'}{f': {member.message}' if member.message else ''}"
            agent = "is its agent running, and does it reach the log?" if member.mode == "Pull" else "does it answer?"
            yield Finding("error", about, f"not ready: {what}", f"kubectl describe cluster {member.name}; {agent}")
        if member.expiring:
            yield Finding("error", about, member.expiring, "renew them: docs/joining.md")
        at = heard.get(member.name)
        if at is not None and facts.now - at > SILENT and not member.deleting:
            who = "agent" if member.mode == "Pull" else "last probe"
            message = f"its {who} was heard of {age(facts.now - at)} ago"
            yield Finding("warning", about, message, "compare the clocks, then look at its agent or network")


def _evictions(facts: Facts) -> Iterator[Finding]:
    for report in facts.instances or ():
        said = report.facts.get("postponed") if report.leader else None
        for about, reason in said.items() if isinstance(said, dict) else ():
            remedy = "it is tried again with each status that the cluster reports; docs/failover.md"
            yield Finding("warning", str(about), f"waits to be evicted: {reason}", remedy)


def _machine(facts: Facts) -> Iterator[Finding]:
    if facts.control_plane:
        remedy = "kubectl get --raw /readyz with the same kubeconfig says more"
        yield Finding("error", "control plane", facts.control_plane, remedy)
    stopped = [process.name for process in facts.processes or () if not process.running]
    for name in stopped:
        yield Finding("error", f"process {name}", "does not run", f"see its log in DIR/logs/{name}.log; fleetlog up")
    if facts.processes is not None and not facts.processes:
        yield Finding("error", "installation", "does not run", "start it: fleetlog up")
    answered = {report.service for report in facts.instances or ()}
    # Already said to be so by what is on the log.
    silent = {finding.about for finding in _services(facts)}
    for answer in facts.answers or () if facts.processes else ():
        if answer.name in silent:
            continue
        if answer.error and answer.name not in stopped:
            yield Finding("error", answer.name, f"does not answer on this machine: {answer.error}", "see its log file")
        elif answer.name not in answered:
            for check, reason in sorted(answer.reasons.items()):
                remedy = "the reason says what it waits for"
                yield Finding("warning", answer.name, f"not ready: {check}: {reason}", remedy)
    disk = facts.disk
    if disk is not None and disk.free < min(DISK_BYTES, disk.size * DISK_SHARE):
        message = f"{disk.free >> 20} of {disk.size >> 20} MiB are free where {disk.path} is"
        yield Finding("error", "disk", message, "make room; the log's server stops at a full disk (docs/deploy.md)")


def _certificates(facts: Facts) -> Iterator[Finding]:
    for one in facts.certificates:
        left = one.at - facts.now
        end = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        if left <= 0:
            yield Finding("error", one.what, f"ended at {end}", "renew it, then restart what uses it")
        elif left < min(SOON, (one.at - one.since) / 3 if one.since else SOON):
            yield Finding("warning", one.what, f"ends at {end}, in {age(left)}", "renew it before")

"""The commands `fleetlog status` and `fleetlog doctor`: the installation on one page, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from schemas.topology import OPTIONAL, SERVICES, WITHOUT_LOG
from services.cli.common.installation_options import LogAndControlOptions
from services.cli.common.moments import age, stamp
from services.cli.common.printing import render, table
from services.cli.common.running import complain
from services.cli.overview.fact_readers import look
from services.cli.overview.findings import Finding, findings, held_keys, serious
from services.cli.overview.installation_facts import Facts
from services.cli.overview.status_facts import Held, Overview

NAMED: Final = 5


async def status(log: LogAndControlOptions, output: str = "") -> int:
    """Print the page; 1 when something has to be done, or could not be reached. Raises Failed."""
    facts = await look(log)
    found = findings(facts)
    render(output, lambda: document(facts, found), lambda: text(facts, wide=output == "wide"))
    if found and output not in ("json", "yaml"):
        worst = [finding for finding in found if finding.severity != "info"]
        if worst:
            complain(f"{len(worst)} finding{'s' if len(worst) > 1 else ''}; fleetlog doctor says what to do")
    return 1 if serious(found) else 0


async def doctor(log: LogAndControlOptions, output: str = "") -> int:
    """Print every finding with its remedy, and what was looked at; 1 when there is something to do. Raises Failed."""
    facts = await look(log)
    found = findings(facts)
    diagnosis: Callable[[], object] = lambda: {  # noqa: E731 - read once, below
        "findings": msgspec.to_builtins(found),
        "checked": sorted(facts.checked),
        "unchecked": facts.unchecked,
        "version": facts.version,
        "log": facts.where,
    }
    render(output, diagnosis, lambda: diagnosed(facts, found, wide=output == "wide"))
    return 1 if serious(found) else 0


def diagnosed(facts: Facts, found: Sequence[Finding], *, wide: bool = False) -> str:
    """What the doctor says to people; `wide` as one table."""
    parts = []
    if wide and found:
        rows = [(one.severity, one.about, one.message, one.remedy) for one in found]
        parts.append(table(("severity", "about", "finding", "remedy"), rows))
    else:
        for one in found:
            parts.append(f"{one.severity.upper()}  {one.about}: {one.message}\n")
            parts += [f"       {one.remedy}\n"] if one.remedy else []
    if not found:
        parts.append("Nothing is wrong.\n")
    parts.append(f"\nLooked at: {', '.join(sorted(facts.checked)) or 'nothing'}\n")
    if facts.unchecked:
        parts.append(
            "Not looked at:\n" + "".join(f"  {name}: {why}\n" for name, why in sorted(facts.unchecked.items()))
        )
    return "".join(parts)


def document(facts: Facts, found: Sequence[Finding]) -> dict[str, Any]:
    """The page for programs."""
    seen = facts.overview or Overview()
    control, heard = seen.control_plane, facts.heard()
    return {
        "controlPlane": {"uid": control.uid, "revision": control.revision, "error": facts.control_plane}
        if control is not None
        else None,
        "held": [{**msgspec.to_builtins(held.event), "position": held.position} for held in seen.held],
        "restore": seen.restoring.words,
        "log": {
            "url": facts.where,
            "bytes": facts.store.bytes if facts.store is not None else None,
            "limit": facts.store.most if facts.store is not None else None,
            "streams": [
                {"name": one.stream, "messages": one.messages, "bytes": one.bytes, "limit": one.most}
                for one in facts.fills or ()
            ],
        },
        "filling": [
            {"stream": one.stream, "bytes": one.bytes, "limit": one.most} for one in facts.fills or () if one.alarming
        ],
        "disk": msgspec.to_builtins(facts.disk),
        "members": [{**msgspec.to_builtins(member), "heard": heard.get(member.name)} for member in seen.members],
        "services": [
            {"name": name, "instance": leader, "alive": state == "running", "state": state}
            for name, state, leader in _services(facts)
        ],
        "instances": msgspec.to_builtins(facts.instances),
        "parked": [
            {**msgspec.to_builtins(record), "state": state} for record, state in held_keys(facts) if state != "over"
        ],
        "processes": msgspec.to_builtins(facts.processes),
        "certificates": msgspec.to_builtins(facts.certificates),
        "version": facts.version,
        "findings": msgspec.to_builtins(found),
        "unchecked": facts.unchecked,
    }


def text(facts: Facts, *, wide: bool = False) -> str:
    """The page for people."""
    seen = facts.overview or Overview()
    control = seen.control_plane
    parts = [
        f"Control plane: {control.uid}, revision {control.revision}\n"
        if control is not None
        else "Control plane: its identity is not known yet\n"
    ]
    if seen.held:
        parts.append("Withdrawals: HELD\n" + "".join(held_text(held) for held in seen.held))
    else:
        parts.append("Withdrawals: none held\n")
    if seen.restoring.holds:
        parts.append(f"Delivery: HELD\n  {seen.restoring.words}\n")
    parts += [f"Log: {fill.words}\n" for fill in facts.fills or () if fill.alarming]
    parts.append(_log_text(facts, wide))
    heard = facts.heard()
    members = [
        (
            member.name,
            member.mode,
            member.ready,
            "another cluster answers" if member.stranger else "leaving" if member.deleting else member.reason,
            member.version,
            f"{age(facts.now - heard[member.name])} ago" if member.name in heard else "",
        )
        for member in seen.members
    ]
    headers = ("member", "mode", "ready", "reason", "version", "heard")
    parts.append("\n" + (table(headers, members) if members else "No members\n"))
    parts.append("\n" + _instances_text(facts))
    keys = [(record, state) for record, state in held_keys(facts) if state != "over"]
    if keys:
        rows = [(record.service, record.key, state, record.reason) for record, state in keys[: None if wide else NAMED]]
        parts.append("\n" + table(("service", "key", "state", "reason"), rows))
        parts.append(f"… and {len(keys) - len(rows)} more\n" if len(keys) > len(rows) else "")
    ends = sorted(facts.certificates, key=lambda one: one.at)[: None if wide else 1]
    parts += ["\n"] if ends else []
    parts += [f"{one.what} ends in {age(one.at - facts.now)}\n" for one in ends]
    for name, why in sorted(facts.unchecked.items()) if wide else ():
        parts.append(f"not looked at: {name}: {why}\n")
    return "".join(parts)


def _log_text(facts: Facts, wide: bool) -> str:
    parts = [f"Log: {facts.where}"]
    if facts.store is not None:
        parts.append(f", {facts.store.bytes >> 20} MiB")
    if facts.disk is not None:
        parts.append(f"; {facts.disk.free >> 20} of {facts.disk.size >> 20} MiB free on its disk")
    parts.append("\n")
    rows = [
        (
            fill.stream,
            fill.messages,
            f"{fill.bytes / (1 << 20):.1f}",
            fill.most >> 20 if fill.most > 0 else "",
            f"{fill.ratio:.0%}" if fill.most > 0 else "",
        )
        for fill in facts.fills or ()
        if wide
    ]
    if rows:
        parts.append("\n" + table(("stream", "messages", "MiB", "of", "full"), rows))
    return "".join(parts)


def _instances_text(facts: Facts) -> str:
    rows: list[tuple[object, ...]] = []
    for name, state, leader in _services(facts):
        reports = [report for report in facts.instances or () if report.service == name]
        if not reports:
            rows.append((name, state, leader, "", "", "", ""))
        for report in sorted(reports, key=lambda one: (not one.leader, one.instance)):
            now = state if report.leader or not report.leads else "standby"
            if report.reasons and now != "standby":
                now = "not ready"
            rows.append(
                (
                    name,
                    now,
                    report.instance,
                    sum(report.lag.values()),
                    report.dirty,
                    report.parked,
                    report.version,
                )
            )
    return table(("service", "state", "instance", "lag", "dirty", "parked", "version"), rows)


def _services(facts: Facts) -> list[tuple[str, str, str]]:
    """Every service that runs or ran: its name, whether it is `running` or `silent`, and its leader, or its last."""
    led = facts.overview.leaders if facts.overview is not None else {}
    leading = dict(facts.leading)
    for report in facts.instances or ():
        if report.leader or not report.leads:
            leading.setdefault(report.service, report.instance)
    known = [name for name in SERVICES if name in led or name in leading]
    known += sorted(name for name in {*led, *leading} if name not in SERVICES)
    missing = [name for name in SERVICES if name not in known and name not in OPTIONAL | WITHOUT_LOG]
    found = [(name, "running" if name in leading else "silent", leading.get(name) or led[name]) for name in known]
    return found + [(name, "unknown", "") for name in missing if facts.instances]


def held_text(held: Held, named: int = NAMED) -> str:
    """What is held in one scope, with the first names."""
    event = held.event
    lines = [f"  {event.scope}: {event.reason} since {stamp(event.since)} (#{held.position})", f"    {event.message}"]
    lines += [f"    missing: {name}" for name in event.missing[:named]]
    if event.count > named:
        lines.append(f"    … and {event.count - min(named, len(event.missing))} more")
    if held.confirmed:
        lines.append("    confirmed; the service that holds it has not taken that in yet")
    return "\n".join(lines) + "\n"

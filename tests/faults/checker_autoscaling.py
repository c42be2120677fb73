"""What must hold of autoscaling, by its facts and by the audit log of the control plane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from schemas.events.autoscaling import AutoscalingEvent, ReplicasRecommended, RuleProgress, ScheduleAdvanced
from schemas.manifest import Manifest
from services.autoscaler.decide import ASKED, DONE


def steps(events: Sequence[AutoscalingEvent], writes: int, replicas: int) -> list[str]:
    """Every change of replicas is settled once, written once, and is what the next decision begins with.

    `events` are all facts of one FederatedHPA in their order; only it scales its target, which was written `writes`
    times with other replicas, and has `replicas` now.
    """
    facts = [event for event in events if isinstance(event, ReplicasRecommended)]
    complaints = []
    for before, event in pairwise(facts):
        answers = before.write == ASKED
        if answers and (
            event.write in ("", ASKED) or (event.current, event.desired) != (before.current, before.desired)
        ):
            complaints.append(f"{_step(before)} is followed by {_step(event)} before it is known how it went")
        if not answers and event.write not in ("", ASKED):
            complaints.append(f"{_step(event)} was not asked for: before it stands {_step(before)}")
        if before.write == DONE and event.current != before.desired:
            complaints.append(f"{_step(event)} begins with other replicas than {_step(before)} has set")
    if facts and facts[-1].write == ASKED:
        complaints.append(f"{_step(facts[-1])} is the last fact: how it went is not recorded")
    done = sum(event.write == DONE for event in facts)
    if done != writes:
        complaints.append(f"{done} changes are recorded as done, the target was written {writes} times")
    if facts and facts[-1].desired != replicas:
        complaints.append(f"the target has {replicas} replicas, {_step(facts[-1])} is the last fact")
    return complaints


def runs(events: Sequence[AutoscalingEvent]) -> tuple[int, int, list[str]]:
    """Every run of a rule ends once, and is of a later moment than the one before; how many succeeded and failed.

    `events` are all facts of one CronFederatedHPA in their order.
    """
    complaints: list[str] = []
    last: dict[str, RuleProgress] = {}
    started: dict[str, list[float]] = {}
    ends: dict[str, dict[float, bool]] = {}
    for event in events:
        for rule in event.rules if isinstance(event, ScheduleAdvanced) else ():
            before = last.get(rule.name)
            last[rule.name] = rule
            moments = started.setdefault(rule.name, [])
            if rule.last and (before is None or rule.last != before.last):
                if moments and rule.last <= moments[-1]:
                    complaints.append(f"rule {rule.name} ran for {rule.last:.0f} after it ran for {moments[-1]:.0f}")
                moments.append(rule.last)
            for run, went in _new(before, rule):
                known = ends.setdefault(rule.name, {})
                if run in known:
                    complaints.append(f"the run of rule {rule.name} for {run:.0f} has ended twice")
                known[run] = went
    for name, moments in started.items():
        complaints += [
            f"the run of rule {name} for {moment:.0f} never ended"
            for moment in moments
            if moment not in ends.get(name, {})
        ]
        complaints += [
            f"the run of rule {name} for {run:.0f} was not on the log before it ended"
            for run in ends.get(name, {})
            if run not in moments
        ]
    outcomes = [went for known in ends.values() for went in known.values()]
    return sum(outcomes), len(outcomes) - sum(outcomes), complaints


def _new(before: RuleProgress | None, rule: RuleProgress) -> Iterable[tuple[float, bool]]:
    """Runs that ended since the fact before, with whether they went well; the newest comes first in a fact."""
    for runs_now, runs_then, went in (
        (rule.successes, before.successes if before else (), True),
        (rule.failures, before.failures if before else (), False),
    ):
        for run in runs_now:
            if runs_then and run == runs_then[0]:
                break
            yield run.scheduled, went


def changes(audit: Iterable[Manifest], user: str, namespace: str, name: str, subresource: str = "") -> int:
    """How often a user has written an object, or a subresource of it, with other content."""
    return sum(
        bool(record["changed"])
        and (record["user"], record["namespace"], record["name"], record["subresource"])
        == (user, namespace, name, subresource)
        for record in audit
    )


def _step(event: ReplicasRecommended) -> str:
    return f"{event.key.name}: {event.current} -> {event.desired} replicas ({event.write or 'nothing to write'})"

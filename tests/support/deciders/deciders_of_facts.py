"""Services that decide from facts: scheduler, renderer, aggregator, failover, descheduler, janitor, registrar."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from schemas.agent import Hello
from schemas.codec import Known, subject_of
from schemas.keys import ObjectKey
from services._rules.failover.application_failover import Gates
from services.descheduler import decide as descheduling
from services.descheduler import state as descheduler
from services.failover import decide as evicting
from services.failover import state as failover
from services.janitor import decide as cleaning
from services.janitor import state as janitor
from services.override_renderer import decide as rendering
from services.override_renderer import state as renderer
from services.registrar import decide as registering
from services.registrar import state as registrar
from services.scheduler import decide as scheduling
from services.scheduler import state as scheduler
from services.status_aggregator import decide as summing
from services.status_aggregator import state as aggregator
from tests.support.deciders.decider import Decider, Step, appended, facts, folded, folded_when_stored, started
from tests.support.facts import KEY, cluster
from tests.support.varied_facts import MEMBERS, NOW, OTHER, seen

INTERVAL = 120.0


# The scheduler: what is promised and tried is taken in between decisions.


def _take_scheduler(state: scheduler.SchedulerState, key: ObjectKey, made: Any, seq: int) -> None:
    if made.failed:
        state.tried(key)
    for event in made.events:
        if getattr(event, "clusters", ()):
            state.promise(event, NOW + seq)
        # Some are on their way still.
        if seq % 2:
            appended(folded_when_stored(scheduler.fold), state, seq, (event,))


SCHEDULER = Decider(
    "scheduler",
    scheduler.SchedulerState,
    [
        *facts(
            folded_when_stored(scheduler.fold),
            "binding",
            "cluster",
            "estimate",
            "eviction",
            "descheduling",
            "placement",
            "rollup",
            "lease",
        ),
        Step("an object comes up again", lambda state, seq: state.reopen(KEY, NOW + seq)),
        Step("reservations end", lambda state, _: state.expire(NOW + 1000)),
    ],
    lambda state: [*state.objects, OTHER],
    lambda state, key, now: scheduling.schedule(state, key, now, "default-scheduler", timeout=3.0),
    _take_scheduler,
    started(folded_when_stored(scheduler.fold), "cluster", "binding"),
)

RENDERER = Decider(
    "override_renderer",
    renderer.RendererState,
    facts(
        folded(renderer.fold),
        "template",
        "binding",
        "placement",
        "eviction",
        "descheduling",
        "policy",
        "cluster",
        "work",
    ),
    lambda state: state.objects,
    lambda state, key, _: rendering.decide(state, key, rendering.AtHand()),
    lambda state, key, made, seq: appended(folded(renderer.fold), state, seq, made.events),
    started(folded(renderer.fold), "cluster", "template", "binding", "placement"),
)

PACE = summing.RollupPace(0.1, 1.0, 5.0, 0.3)
AGGREGATOR = Decider(
    "status_aggregator",
    aggregator.AggregatorState,
    facts(
        folded(aggregator.fold),
        "template",
        "binding",
        "placement",
        "eviction",
        "work",
        "cluster",
        "rollup",
        "observed",
    ),
    lambda state: state.objects,
    lambda state, key, now: (
        summing.decide(state, key),
        summing.due_at(state.objects[key], now, PACE, 2.0),
        summing.has_news(state.objects[key]),
    ),
    lambda state, key, made, seq: appended(folded(aggregator.fold), state, seq, made[:1]),
    started(folded(aggregator.fold), "cluster", "template", "binding", "placement", "work", "observed"),
)

RULES = evicting.Rules(taint_eviction=True, timeout=30.0, gates=Gates(stateful_failover_injection=True))
FAILOVER = Decider(
    "failover",
    failover.FailoverState,
    facts(folded(failover.fold), "binding", "placement", "rollup", "cluster", "eviction"),
    lambda state: state.objects,
    lambda state, key, now: [evicting.decide(state, key, now, RULES, in_turn=turn) for turn in (True, False)],
    lambda state, key, made, seq: appended(folded(failover.fold), state, seq, made[0].events),
    started(folded(failover.fold), "cluster", "binding", "placement", "rollup"),
)


def _decide_descheduler(state: descheduler.DeschedulerState, key: ObjectKey, now: float) -> Any:
    answers = descheduler.Answers(state.objects[key].asked_from, {"m1": 1})
    return [descheduling.decide(state, key, now, INTERVAL, NOW, given) for given in (answers, None)]


DESCHEDULER = Decider(
    "descheduler",
    descheduler.DeschedulerState,
    facts(folded(descheduler.fold), "binding", "placement", "eviction", "rollup", "descheduling"),
    lambda state: state.objects,
    _decide_descheduler,
    lambda state, key, made, seq: appended(folded(descheduler.fold), state, seq, made[seq % 2].events),
    started(folded(descheduler.fold), "binding", "placement", "rollup"),
)


def _fold_janitor(state: janitor.JanitorState, seq: int, event: Known) -> None:
    list(janitor.fold(state, seq, NOW + seq, subject_of(event), replace(event, prev=seq - 1)))


JANITOR = Decider(
    "janitor",
    lambda: janitor.JanitorState(tail=1),
    [
        *facts(
            _fold_janitor,
            "template",
            "binding",
            "placement",
            "eviction",
            "rollup",
            "work",
            "observed",
            "cluster",
            "policy",
        ),
        Step("HISTORY is read", lambda state, seq: setattr(state, "held", seq)),
        Step("a large event", lambda state, _: list(janitor.weigh(state, "template.x", janitor.TAIL_BYTES))),
    ],
    lambda state: [*state.objects, *state.policies, *state.clusters, "m9", *map(janitor.Tail, state.counts)],
    lambda state, key, now: cleaning.decide(state, key, now, 50.0),
    lambda state, key, made, seq: None,
)


def _decide_registrar(state: registrar.RegistrarState, name: str, now: float) -> Any:
    report = seen(name, "u1", 3, absent=False)
    hello = Hello(cluster=name, instance="a", at=NOW, uid=f"uid-{name}", log="l", after=3)
    return (
        registering.welcome(state, name, hello, "l", 9),
        registering.may_have(state, name, "d"),
        registering.examine(state, name, report, 9, now),
        registering.examine(state, name, report, 9, now, most=1),
        registering.is_stored(state, report),
    )


REGISTRAR = Decider(
    "registrar",
    registrar.RegistrarState,
    facts(folded(registrar.fold), "work", "observed", "cluster", "policy", more=[cluster("m2", syncMode="Pull")]),
    lambda state: [*MEMBERS, "m9"],
    _decide_registrar,
    lambda state, key, made, seq: None,
)

"""The command `fleetlog trace export KIND/NAME`: changes of one object as traces, shown or sent to a collector."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from schemas.topology import FACTS, OBJECTS
from services._kit.log.jetstream import JetStreamLog
from services._rules.history.timeline import subjects_of
from services._rules.tracing.logged_event import Step
from services._rules.tracing.otlp_document import document
from services._rules.tracing.span_model import Span, Trace
from services._rules.tracing.trace_assembly import NO_CHANGE
from services._rules.tracing.trace_builder import TraceBuilder, in_order
from services.cli.common.logbook import open_log, streams
from services.cli.common.moments import moment, stamp
from services.cli.common.printing import as_json
from services.cli.common.running import Failed, patience
from services.cli.objects.kind_lookup import one_object
from services.cli.queries.object_history import key_asked
from services.cli.queries.query_options import ObjectQuery
from services.cli.queries.unclaimed import unclaimed
from services.cli.tracing.collector_sender import CollectorSender
from services.cli.tracing.span_tree import tree
from services.cli.tracing.step_reading import steps_about
from services.cli.tracing.tracing_options import TraceChoice, TraceTarget


async def export_object(query: ObjectQuery, choice: TraceChoice, target: TraceTarget) -> int:
    """Print or send traces of an object; raises Failed for what is not there, or was not taken."""
    if choice.revision and choice.since:
        raise Failed("--revision names one change, --since several: give one of them")
    earliest = moment(choice.since, "--since", time.time()) if choice.since else None
    one_object(query.words)
    sender = CollectorSender(target.otlp) if target.otlp else None
    key = await key_asked(query)
    async with patience("reading the log"), open_log(query.log.access) as connection:
        steps = await steps_about(streams(connection), JetStreamLog(connection, OBJECTS.name), key)
    if not steps:
        raise Failed(f"the log holds no fact about {key}: {await unclaimed(query.log.target, key)}")
    traces = chosen(key, steps, choice.revision, earliest)
    if not traces:
        asked = f"since {stamp(earliest)}" if earliest is not None else f"to generation {choice.revision}"
        raise Failed(f"the log holds no change of {key} {asked}{_known(key, steps)}")
    if sender is not None:
        problem = await asyncio.to_thread(sender.send, traces)
        if problem:
            raise Failed(f"{sender.place} has not taken the traces: {problem}")
        print(f"sent {sum(len(trace.spans) for trace in traces)} spans to {sender.place}")
        for trace in traces:
            print(trace.trace_id)
    elif target.output == "json":
        print(as_json(document(traces)), end="")
    else:
        print("\n".join(tree(trace) for trace in traces), end="")
    return 0


def _known(key: ObjectKey, steps: Sequence[Step]) -> str:
    """The generations of an object that the log knows."""
    events = (step.event for step in steps)
    known = sorted({event.generation for event in events if isinstance(event, TemplateChanged) and event.key == key})
    return f"; it knows {', '.join(map(str, known))}" if known else ""


def chosen(key: ObjectKey, steps: Sequence[Step], revision: int, earliest: float | None) -> list[Trace]:
    """The traces that are asked for, the oldest first: those that touch the object.

    That are those with a step since `earliest`, else the one that brought a generation, else the latest change.
    """
    builder = TraceBuilder(max(1, len(steps)))
    spans: dict[str, list[Span]] = {}
    touching: dict[str, float] = {}
    brought: dict[int, str] = {}
    # Policies, autoscalers and Clusters have other keys in their facts.
    own = frozenset(subjects_of(key)[FACTS.name])
    for step in in_order(steps):
        for span in builder.spans_of(step):
            spans.setdefault(span.trace_id, []).append(span)
            if getattr(step.event, "key", None) == key or step.at.subject in own:
                touching[span.trace_id] = max(span.end, touching.get(span.trace_id, 0.0))
            if isinstance(step.event, TemplateChanged) and step.event.key == key:
                brought.setdefault(step.event.generation, span.trace_id)
    traces = [Trace(name, tuple(found)) for name, found in spans.items() if name in touching]
    if earliest is not None:
        return [trace for trace in traces if touching[trace.trace_id] >= earliest]
    if revision:
        return [trace for trace in traces if trace.trace_id == brought.get(revision)]
    changes = [trace for trace in traces if len(trace.spans) > 1 and trace.spans[0].name not in NO_CHANGE]
    return (changes or traces)[-1:]

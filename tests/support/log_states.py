"""Folds an exported log into the state of every service and views each state as JSON.

A view names positions, clusters and replicas, no class of the code: different versions give equal views of one log.
It imports nothing but service classes and the codec, so that an old version can run it to record its own views.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from schemas.codec import decode

View = dict[str, Any]

SERVICES: Final[Mapping[str, tuple[str, str]]] = {
    "cluster_monitor": ("ClusterMonitor", "MonitorSettings"),
    "descheduler": ("Descheduler", "DeschedulerSettings"),
    "detector": ("Detector", "DetectorSettings"),
    "estimator": ("Estimator", "EstimatorSettings"),
    "executor": ("Executor", "ExecutorSettings"),
    "failover": ("Failover", "FailoverSettings"),
    "gateway": ("Gateway", "GatewaySettings"),
    "janitor": ("Janitor", "JanitorSettings"),
    "override_renderer": ("OverrideRenderer", ""),
    "registrar": ("Registrar", "RegistrarSettings"),
    "scheduler": ("Scheduler", "SchedulerSettings"),
    "status_aggregator": ("StatusAggregator", "AggregatorSettings"),
}
"""The class of every service that projects the log, and of its settings (empty: it takes none)."""


class Stored(Struct, frozen=True):
    """One message of a file; `time` is when it was stored, in seconds since 1970."""

    stream: str
    seq: int
    time: float
    subject: str
    headers: dict[str, str]
    data: bytes


def stored(path: Path) -> Iterator[Stored]:
    """The messages of an exported log, without the code that a version has for such files."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if line["line"] == "message":
                text = line.get("text")
                data = text.encode() if text is not None else base64.b64decode(line["base64"])
                yield Stored(line["stream"], line["seq"], line["time"], line["subject"], line.get("headers", {}), data)


def service(name: str) -> Any:
    """A service with default settings, not started."""
    made, settings = SERVICES[name]
    app = getattr(import_module(f"services.{name}.app"), made)
    if not settings:
        return app()
    kind = getattr(import_module(f"services.{name}.settings"), settings)
    with TemporaryDirectory() as directory:
        tokens = Path(directory) / "tokens.csv"
        tokens.write_text("unused-token,unused,unused\n", encoding="utf-8")
        # Settings without which a service is not even made.
        needed = {"control_kubeconfig": "", "token_file": str(tokens)}
        return app(kind(**{name: value for name, value in needed.items() if name in kind.__struct_fields__}))


def reads(filters: tuple[str, ...], message: Stored) -> bool:
    """Whether a service projects a message; filters end with `>` or have a `*` for one token."""
    tokens = message.subject.split(".")
    for pattern in filters:
        wanted = pattern.split(".")
        if wanted[-1] == ">":
            wanted = wanted[:-1]
            found = tokens[: len(wanted)] if len(tokens) > len(wanted) else []
        else:
            found = tokens
        if len(found) == len(wanted) and all(a in ("*", b) for a, b in zip(wanted, found, strict=True)):
            return True
    return False


def folded(name: str, messages: list[Stored]) -> tuple[Any, int]:
    """The state of a service at the end of a log, and how many messages it took in; raises what folding raises."""
    made = service(name)
    state, count = made.new_state(), 0
    # Two streams have no order between them; that of time is one of those a service may see.
    for message in sorted(messages, key=lambda item: item.time):
        if message.stream in ("FACTS", "OBSERVED") and reads(tuple(made.filters), message):
            for _ in made.fold(state, message, decode(message.subject, message.data)) or ():
                pass
            count += 1
    return state, count


def view(name: str, state: Any) -> View:
    """What of a state is the same in every version, as JSON."""
    seen: Any = json.loads(json.dumps(_VIEWS[name](state)))
    return dict(sorted(seen.items()))


def decided_at_end(messages: list[Stored]) -> dict[str, View]:
    """What a scheduler and a failover service that take over at the end of a log decide; nothing for most objects."""
    now = max(item.time for item in messages) + 1.0
    decisions = import_module("services.scheduler.decide")
    trace = getattr(decisions, "decide_with_trace", None) or decisions.decide_and_tell
    rules = import_module("services.scheduler.settings").SchedulerSettings().rules()
    state, _ = folded("scheduler", messages)
    placements = {str(key): trace(state, key, now, "default-scheduler", rules=rules)[0] for key in state.objects}
    evict = import_module("services.failover.decide").decide
    settings = import_module("services.failover.settings").FailoverSettings
    evicting = settings(feature_gates=("Failover=true",), enable_no_execute_taint_eviction=True).rules()
    state, _ = folded("failover", messages)
    evictions = {str(key): _first(evict(state, key, now, evicting)) for key in state.objects}
    return {
        "placements": {
            key: [type(event).__name__, _targets(getattr(event, "clusters", ())), getattr(event, "message", "")]
            for key, event in placements.items()
            if event is not None
        },
        "evictions": {key: type(event).__name__ for key, event in evictions.items() if event is not None},
    }


def _first(decision: Any) -> Any:
    """The event of a decision; earlier versions had one at most."""
    events = getattr(decision, "events", None)
    return decision.event if events is None else next(iter(events), None)


def manifests(messages: list[Stored]) -> dict[str, bytes]:
    """Manifest bytes by digest: blobs, also those written as differences, and what works and templates hold inline."""
    short = {item.subject.removeprefix("blob."): item.data for item in messages if item.stream == "BLOBS"}
    found = {name: _undone(data, short) for name, data in short.items()}
    for item in messages:
        if item.stream == "FACTS" and item.subject.startswith(("work.", "template.")):
            event: Any = decode(item.subject, item.data)
            if isinstance(getattr(event, "manifest", None), Raw) and event.digest:
                found[event.digest] = bytes(event.manifest)
    return found


def _undone(data: bytes, others: Mapping[str, bytes]) -> bytes:
    if not data.startswith(b"FLD1"):
        return data
    base, parts = msgspec.msgpack.decode(data[4:])
    return b"".join(part if isinstance(part, bytes) else others[base][part[0] : part[1]] for part in parts)


def decided_again(name: str, messages: list[Stored]) -> dict[str, list[int]]:
    """Decides each recorded event of failover or override_renderer again, on the facts that it had in view.

    Positions of the events that come out the `same` and of those that `differ`.
    """
    writes = {"failover": "eviction.", "override_renderer": "work."}[name]
    facts = [(item, decode(item.subject, item.data)) for item in messages if item.stream == "FACTS"]
    recorded: list[Any] = [(event.provenance.as_of, item.seq, event) for item, event in facts]
    # What is secret is rendered with a key that is not exported.
    recorded = [
        (as_of, seq, event)
        for (as_of, seq, event), (item, _) in zip(recorded, facts, strict=True)
        if item.subject.startswith(writes) and event.key.resource != "secrets"
    ]
    made = service(name)
    state, folds = made.new_state(), 0
    if name == "override_renderer":
        # Earlier versions kept in the state what was fetched.
        getattr(made, "at_hand", state).blobs.update(manifests(messages))
    found: dict[str, list[int]] = {"same": [], "differ": []}
    for as_of, seq, event in sorted(recorded, key=lambda item: item[:2]):
        while folds < len(facts) and facts[folds][0].seq <= as_of:
            if reads(tuple(made.filters), facts[folds][0]):
                list(made.fold(state, *facts[folds]) or ())
            folds += 1
        wanted = _plain(event)
        found["same" if wanted in [_plain(item) for item in _decide(made, name, state, event)] else "differ"].append(
            seq
        )
    return found


def _decide(made: Any, name: str, state: Any, event: Any) -> list[Any]:
    if name == "override_renderer":
        fetched = (made.at_hand,) if hasattr(made, "at_hand") else ()
        return list(import_module("services.override_renderer.decide").decide(state, event.key, *fetched).events)
    settings = import_module("services.failover.settings").FailoverSettings
    gates = ("Failover=true", "StatefulFailoverInjection=true")
    rules = settings(feature_gates=gates, enable_no_execute_taint_eviction=True).rules()
    decide = import_module("services.failover.decide").decide
    return [_first(decide(state, event.key, event.provenance.decided_at, rules))]


_COUNTS = ("changes", "generation")


def _plain(event: Any) -> Any:
    """An event without its place on the log, and without counts of earlier events that those did not have."""
    fields = msgspec.json.decode(msgspec.json.encode(event)) if event is not None else {}
    return {name: value for name, value in fields.items() if name not in ("prev", "provenance", *_COUNTS)}


def _targets(targets: Any) -> dict[str, int | None]:
    return {target.name: target.replicas for target in targets}


def _positions(facets: Any, *names: str) -> dict[str, int]:
    found = {name: getattr(facets, f"{name}_seq") for name in names}
    return {name: seq for name, seq in found.items() if seq}


def _scheduler(state: Any) -> View:
    return {
        str(key): {
            "targets": _targets(item.targets),
            "leaves": sorted(task.from_cluster for task in item.tasks),
            "replicas": (item.spec or {}).get("replicas", 0),
            **_positions(item, "binding", "placement", "eviction", "descheduling", "estimate"),
        }
        for key, item in state.objects.items()
    }


def _renderer(state: Any) -> View:
    objects = {
        str(key): {
            "works": {cluster: [type(work).__name__, seq] for cluster, (work, seq) in sorted(bound.works.items())},
            "live": bound.live,
            **_positions(bound, "template", "binding", "placement", "eviction", "descheduling"),
        }
        for key, bound in state.objects.items()
    }
    policies = {str(key): seq for key, (_, seq) in state.policies.items()}
    return {"objects": objects, "clusters": sorted(state.clusters), "overrides": policies}


def _failover(state: Any) -> View:
    objects = {
        str(key): {
            "leaves": {task.from_cluster: task.reason for task in item.tasks},
            "unhealthy": sorted(item.unhealthy_since),
            **_positions(item, "binding", "placement", "eviction", "rollup"),
        }
        for key, item in state.objects.items()
    }
    return {"objects": objects, "taints": {name: len(taints) for name, taints in state.clusters.items()}}


def _aggregator(state: Any) -> View:
    return {
        str(key): {
            "works": {cluster: [copy.seq, copy.wanted] for cluster, copy in sorted(item.works.items())},
            "observed": {cluster: [seen.health, seq] for cluster, (seen, seq) in sorted(item.observed.items())},
            "sum": {part.cluster: [part.applied, part.health] for part in item.rollup.items} if item.rollup else {},
            **_positions(item, "eviction", "rollup"),
        }
        for key, item in state.objects.items()
    }


def _executor(state: Any) -> View:
    clusters = {
        cluster: {
            "works": {str(key): [type(work).__name__, seq] for key, (work, seq) in sorted(works.works.items())},
            "observed": {str(key): seen.absent for key, seen in sorted(works.observed.items())},
            "unfinished": sorted(map(str, works.unfinished())),
        }
        for cluster, works in state.by_cluster.items()
    }
    return {"clusters": clusters, "members": sorted(state.clusters), "removed": sorted(state.removed)}


def _registrar(state: Any) -> View:
    works = {
        cluster: {str(key): [digest, works.positions[key]] for key, digest in sorted(works.digests.items())}
        for cluster, works in state.works.items()
    }
    return {"works": works, "members": sorted(state.members), "observed": {k: v[0] for k, v in state.observed.items()}}


def _gateway(state: Any) -> View:
    objects = {
        str(key): {
            "shown": bound.shown,
            "revision": bound.revision,
            "scheduled": bound.scheduled.status if bound.scheduled else None,
            "applied": bound.applied.status if bound.applied else None,
        }
        for key, bound in state.objects.items()
    }
    copies = {
        cluster: {str(key): [copy.shown, copy.work_seq] for key, copy in sorted(held.items())}
        for cluster, held in state.copies.items()
    }
    return {"objects": objects, "copies": copies, "removed": sorted(state.removed), "facts": state.facts}


def _estimator(state: Any) -> View:
    objects = {
        str(key): {
            "targets": _targets(item.targets),
            **_positions(item, "binding", "placement", "eviction", "descheduling"),
        }
        for key, item in state.objects.items()
    }
    unplaced, pull = sorted(map(str, state.unplaced)), sorted(state.pull)
    return {"objects": objects, "unplaced": unplaced, "pull": pull, "subjects": state.subjects}


def _descheduler(state: Any) -> View:
    return {
        str(key): {
            "short": len(item.short()),
            **_positions(item, "binding", "placement", "eviction", "rollup", "descheduling"),
        }
        for key, item in state.objects.items()
    }


def _detector(state: Any) -> View:
    bindings = {
        str(key): [getattr(event, "replicas", None), getattr(event, "generation", None)]
        for key, event in state.binding_facts.items()
    }
    return {"subjects": state.subjects, "bindings": bindings, "templates": sorted(map(str, state.template_facts))}


def _monitor(state: Any) -> View:
    return {name: item.subject_seq for name, item in state.clusters.items()}


def _janitor(state: Any) -> View:
    objects = {
        str(key): [sorted(left.facets), sorted(left.works), {k: v.work_seq for k, v in sorted(left.observed.items())}]
        for key, left in state.objects.items()
    }
    return {"objects": objects, "members": sorted(state.members), "clusters": sorted(state.clusters)}


_VIEWS: Final[Mapping[str, Callable[[Any], View]]] = {
    "cluster_monitor": _monitor,
    "descheduler": _descheduler,
    "detector": _detector,
    "estimator": _estimator,
    "executor": _executor,
    "failover": _failover,
    "gateway": _gateway,
    "janitor": _janitor,
    "override_renderer": _renderer,
    "registrar": _registrar,
    "scheduler": _scheduler,
    "status_aggregator": _aggregator,
}


def expectations(commit: str, log: Path, directory: Path) -> dict[str, Any]:
    """What the version at a commit finds in its log; the directory has what its commands printed of it, as JSON."""
    messages = list(stored(log))
    decoded = [json.loads(item.data) for item in messages if item.stream != "BLOBS"]
    digests = [event.get("digest") for event in decoded if event["type"].startswith(("TemplateCh", "WorkRendered"))]
    histories = {}
    for path in sorted(directory.glob("history-*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        resource, _, group = told["object"]["resource"].partition(".")
        key = [group, resource, told["object"]["namespace"], told["object"]["name"]]
        histories[key[-1]] = {"key": key, "entries": [_step(entry) for entry in told["entries"]]}
    replay = json.loads((directory / "replay.json").read_text(encoding="utf-8"))
    return {
        "commit": commit,
        "messages": Counter(item.stream for item in messages),
        "events": Counter(event["type"] for event in decoded),
        "digests": len([digest for digest in digests if digest and not digest.startswith("sealed-")]),
        "deltas": len([item for item in messages if item.stream == "BLOBS" and item.data.startswith(b"FLD1")]),
        "replay": {**{name: replay[name] for name in ("decisions", "skipped")}, "differ": len(replay["differences"])},
        "decided_at_end": decided_at_end(messages),
        "decided_again": {name: decided_again(name, messages) for name in ("failover", "override_renderer")},
        "states": {name: view(name, folded(name, messages)[0]) for name in SERVICES},
        "histories": histories,
    }


def _step(entry: dict[str, Any]) -> list[Any]:
    causes = [[cause.get("stream", "FACTS"), cause["position"], cause.get("event", "")] for cause in entry["causes"]]
    return [entry.get("stream", "FACTS"), entry["position"], entry["subject"], entry["event"], entry["asOf"], causes]


if __name__ == "__main__":
    found = expectations(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    parts = {name: json.dumps(part, sort_keys=True) for name, part in found.items() if name != "states"}
    states = ",\n".join(f'  "{name}": {json.dumps(part, sort_keys=True)}' for name, part in found["states"].items())
    parts["states"] = f"{{\n{states}\n }}"
    sys.stdout.write("{\n" + ",\n".join(f' "{name}": {part}' for name, part in parts.items()) + "\n}\n")

"""The command `fleetlog history`: what happened to one object, why, and how long each step took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from schemas.keys import ObjectKey
from services._kit.history import story
from services._kit.kube import ApiResource, Unreachable
from services._rules.timeline import Entry, because, line, offset
from services.cli.control import Target, open_control
from services.cli.kinds import discover, find
from services.cli.log_times import moment
from services.cli.logbook import LogAccess, open_log, streams
from services.cli.printing import aligned, as_json
from services.cli.running import Failed, complain, patience

_OUTPUTS: Final = ("", "wide", "json", "yaml")
_BROADEST: Final = 80


def clock_time(seconds: float) -> str:
    """`12:00:00.123` of the local day."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S.%f")[:-3]


def shown(entries: Sequence[Entry], *, wide: bool = False) -> str:
    """A story as aligned lines: time since its first step, subject, position, event, meaning, cause.

    Wide lines also tell the time of day, and how much of the log the deciding service had seen.
    """
    lines = []
    for entry in entries:
        cells = [offset(entry.offset_ms), entry.subject, f"#{entry.position}", entry.event, entry.summary]
        if wide:
            cells.insert(0, clock_time(entry.time))
            cells.append(f"saw #{entry.as_of}" if entry.as_of else "")
        lines.append([*cells, because(entry)])
    return aligned(lines, broadest=_BROADEST)


def document(key: ObjectKey, entries: Sequence[Entry]) -> dict[str, Any]:
    """A story as the JSON document that the gateway serves, too."""
    began = datetime.fromtimestamp(entries[0].time, UTC).isoformat(timespec="milliseconds")
    return {
        "kind": "History",
        "apiVersion": "fleetlog/v1",
        "object": {"resource": key.group_resource, "namespace": key.namespace, "name": key.name},
        "began": began.replace("+00:00", "Z"),
        "entries": [{**msgspec.to_builtins(entry), "line": line(entry)} for entry in entries],
    }


async def history(
    access: LogAccess, target: Target, kind: str, name: str, namespace: str = "", output: str = "", at: str = ""
) -> int:
    """Print the story of one object, or its state at a moment; raises Failed when the log knows nothing of it."""
    if output not in _OUTPUTS or (output == "yaml" and not at):
        raise Failed(f"unsupported output {output!r}; use wide or json, or yaml together with --at")
    moment_wanted = moment(at, "--at", time.time()) if at else None
    key = await key_of(target, kind, name, namespace)
    if moment_wanted is not None:
        from services.cli.log_states import state_at

        return await state_at(access, key, moment_wanted, output)
    async with patience("reading the log"), open_log(access) as connection:
        entries = await story(streams(connection), key)
    if not entries:
        raise Failed(f"the log holds no fact about {key}; a policy has to claim it (kubectl get propagationpolicies)")
    print(as_json(document(key, entries)) if output == "json" else shown(entries, wide=output == "wide"), end="")
    return 0


async def key_of(target: Target, kind: str, name: str, namespace: str = "") -> ObjectKey:
    """The key behind a kind and a name, by discovery of the control plane.

    Where the control plane does not answer, the kind is taken literally as `plural.group`: the log outlives it.
    """
    try:
        async with open_control(target) as control:
            resource = find(await discover(control.client), kind)
            usual = control.namespace
    except Unreachable as error:
        complain(f"the control plane does not answer ({error}); taking {kind!r} as plural.group")
        plural, _, group = kind.partition(".")
        return ObjectKey(group=group, resource=plural, namespace="" if namespace == "_" else namespace, name=name)
    return key_in(resource, name, namespace or usual)


def key_in(resource: ApiResource, name: str, namespace: str) -> ObjectKey:
    """Key of an object of a served kind; kinds without namespaces ignore theirs."""
    return ObjectKey(
        group=resource.group, resource=resource.name, namespace=namespace if resource.namespaced else "", name=name
    )

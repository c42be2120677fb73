"""The command `fleetlog history`: what happened to one object and why, or how its facets stood at a moment."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from schemas.keys import ObjectKey
from services._kit.kube.client import ApiResource, Unreachable
from services._kit.log.fact_history import endpoint_story, facts_of, story, told
from services._rules.constants import EXPORTS, IMPORTS, MULTICLUSTER_GROUP
from services._rules.history.facet_states import Standing, standing
from services._rules.history.timeline import Entry, line
from services.cli.common.control_plane import NoKubeconfig, open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.moments import moment, stamp
from services.cli.common.printing import render, table
from services.cli.common.running import Failed, complain, patience
from services.cli.objects.kind_lookup import discover, find, one_object
from services.cli.queries.history_output import document, render_history
from services.cli.queries.query_options import ObjectQuery
from services.cli.queries.unclaimed import unclaimed

_OF_SERVICES: Final = frozenset({("", "services"), (MULTICLUSTER_GROUP, EXPORTS), (MULTICLUSTER_GROUP, IMPORTS)})
"""Kinds whose names are those of Services."""


async def history(
    query: ObjectQuery, output: str = "", at: str = "", since: str = "", tail: int = 0, *, endpoints: bool = False
) -> int:
    """Print the history of one object, or its state at a moment; raises Failed when the log knows nothing of it.

    With `endpoints` it is that of the endpoints which clusters export of a Service.
    """
    if at and endpoints:
        raise Failed("--at shows the state of the object itself; --endpoints has the steps of its endpoints")
    if at and (since or tail):
        raise Failed("--at shows the state at one time; --since and --tail are for the steps without it")
    earliest = moment(since, "--since", time.time()) if since else 0.0
    moment_wanted = moment(at, "--at", time.time()) if at else None
    one_object(query.words)
    access = query.log.access
    key = await key_asked(query)
    if moment_wanted is not None:
        from services.cli.queries.object_history import state_at

        return await state_at(access, key, moment_wanted, output)
    if endpoints and (key.group, key.resource) not in _OF_SERVICES:
        raise Failed(f"--endpoints is for Services, ServiceExports and ServiceImports, not for {key.group_resource}")
    async with patience("reading the log"), open_log(access) as connection:
        entries = await (endpoint_story if endpoints else story)(streams(connection), key)
    if not entries and endpoints:
        raise Failed(
            f"no cluster has exported endpoints of {key.namespace}/{key.name}: it needs a ServiceExport "
            "there, or a MultiClusterService"
        )
    if not entries:
        raise Failed(f"the log holds no fact about {key}: {await unclaimed(query.log.target, key)}")
    entries = [entry for entry in entries if entry.time >= earliest][-tail:]
    if not entries:
        raise Failed(f"nothing happened to {key} since {stamp(earliest)}; without --since there is more")
    render(output, lambda: document(key, entries), lambda: render_history(entries, wide=output == "wide"))
    return 0


async def key_asked(query: ObjectQuery) -> ObjectKey:
    """The key of the object that a command is asked about; raises Failed for words that name no object."""
    return await key_of(query.log.target, *one_object(query.words), query.namespace)


async def key_of(target: ControlPlaneOptions, kind: str, name: str, namespace: str = "") -> ObjectKey:
    """The key behind a kind and a name, by discovery of the control plane.

    Where the control plane does not answer, or is not known here, the kind is taken literally as `plural.group`: the
    log outlives it, and observers may have no account there. Then the namespace `_` stands for none.
    """
    try:
        async with open_control(target) as control:
            resource = find(await discover(control.client), kind)
            usual = control.namespace
    except (Unreachable, NoKubeconfig) as error:
        unknown = isinstance(error, NoKubeconfig)
        why = str(error) if unknown else f"the control plane does not answer ({error})"
        complain(f"{why}; taking {kind!r} as plural.group")
        plural, _, group = kind.partition(".")
        return ObjectKey(
            group=group, resource=plural, namespace="" if namespace == "_" else namespace or "default", name=name
        )
    return key_in(resource, name, namespace or usual)


def key_in(resource: ApiResource, name: str, namespace: str) -> ObjectKey:
    """Key of an object of a served kind; kinds without namespaces ignore theirs."""
    return ObjectKey(
        group=resource.group, resource=resource.name, namespace=namespace if resource.namespaced else "", name=name
    )


async def state_at(access: LogAccess, key: ObjectKey, at: float, output: str = "") -> int:
    """Print the state of an object at a moment (seconds since 1970); raises Failed when there was none."""
    async with patience("reading the log"), open_log(access) as connection:
        logs = streams(connection)
        facts = await facts_of(logs, key, at)
        entries = await told(logs, facts) if facts else []
        began = "" if facts else min((stamp(fact.time) for fact in await facts_of(logs, key)), default="")
    if not facts:
        later = f"; its history begins at {began}" if began else ", nor does it now"
        raise Failed(f"at {stamp(at)} the log held no fact about {key}{later}")
    facets = standing(facts)
    render(
        output,
        lambda: state_document(key, at, facets, entries),
        lambda: state_text(key, at, facets, entries, wide=output == "wide"),
    )
    return 0


def state_document(key: ObjectKey, at: float, facets: Sequence[Standing], entries: Sequence[Entry]) -> dict[str, Any]:
    """The state as a document; every facet holds its whole event under `data`."""
    return {
        "kind": "State",
        "apiVersion": "fleetlog/v1",
        "object": {"resource": key.group_resource, "namespace": key.namespace, "name": key.name},
        "at": stamp(at),
        "facets": [msgspec.json.decode(msgspec.json.encode(facet)) for facet in facets],
        "entries": [{**msgspec.to_builtins(entry), "line": line(entry)} for entry in entries],
    }


def state_text(
    key: ObjectKey, at: float, facets: Sequence[Standing], entries: Sequence[Entry], *, wide: bool = False
) -> str:
    """The state as a table for people, and the history up to then below it."""
    rows = [
        (
            facet.facet + (f" {facet.cluster}" if facet.cluster else ""),
            f"#{facet.position}",
            stamp(facet.time),
            facet.event,
            facet.summary,
        )
        for facet in facets
    ]
    head = f"{key} at {stamp(at)}\n\n"
    return (
        f"{head}{table(('facet', 'position', 'since', 'event', 'state'), rows)}\n{render_history(entries, wide=wide)}"
    )

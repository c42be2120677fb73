"""The command `fleetlog history`: what happened to one object, why, and how long each step took."""

from __future__ import annotations

import time
from typing import Final

from schemas.keys import ObjectKey
from services._kit.kube.client import ApiResource, Unreachable
from services._kit.log.fact_history import story
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.logbook import open_log, streams
from services.cli.common.moments import moment
from services.cli.common.printing import as_json
from services.cli.common.running import Failed, complain, patience
from services.cli.objects.kind_lookup import discover, find, one_object
from services.cli.queries.history_output import document, render_history
from services.cli.queries.query_options import ObjectQuery

_OUTPUTS: Final = ("", "wide", "json", "yaml")


async def history(query: ObjectQuery, output: str = "", at: str = "") -> int:
    """Print the story of one object, or its state at a moment; raises Failed when the log knows nothing of it."""
    if output not in _OUTPUTS or (output == "yaml" and not at):
        raise Failed(f"unsupported output {output!r}; use wide or json, or yaml together with --at")
    access = query.log.access
    moment_wanted = moment(at, "--at", time.time()) if at else None
    key = await key_asked(query)
    if moment_wanted is not None:
        from services.cli.queries.object_states import state_at

        return await state_at(access, key, moment_wanted, output)
    async with patience("reading the log"), open_log(access) as connection:
        entries = await story(streams(connection), key)
    if not entries:
        raise Failed(f"the log holds no fact about {key}; a policy has to claim it (kubectl get propagationpolicies)")
    print(
        as_json(document(key, entries)) if output == "json" else render_history(entries, wide=output == "wide"), end=""
    )
    return 0


async def key_asked(query: ObjectQuery) -> ObjectKey:
    """The key of the object that a command is asked about; raises Failed for words that name no object."""
    return await key_of(query.log.target, *one_object(query.words), query.namespace)


async def key_of(target: ControlPlaneOptions, kind: str, name: str, namespace: str = "") -> ObjectKey:
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

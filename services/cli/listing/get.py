"""The command `karmadactl get`: reads objects of the control plane and of members side by side.

Source: docs/sources.md#commands.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiResource
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed, complain, patience
from services.cli.listing.asked_kinds import asked_of
from services.cli.listing.listing_options import CONTROL, EVERYWHERE, MEMBERS, Query
from services.cli.listing.merged_tables import Look, Part, merged
from services.cli.listing.object_reading import Asked, Found, ask
from services.cli.listing.printers import printer_of
from services.cli.listing.sort_order import check_order, ordered
from services.cli.listing.watching import follow
from services.cli.members.clusters import CONTROL_LABEL, Endpoint, members
from services.cli.objects.kind_lookup import discover, split_target

SCOPES: Final = (CONTROL, MEMBERS, EVERYWHERE)


def check(query: Query) -> None:
    """Refuse what makes no sense before anything is asked; raises Failed."""
    if query.scope not in ("", *SCOPES):
        raise Failed(f"unsupported operation scope {query.scope!r}; use one of {', '.join(SCOPES)}")
    if not query.readable:
        printer_of(query)
    if query.show_labels and not query.readable:
        raise Failed("--show-labels goes with the usual output and with -o wide only")
    if query.watch_events and not query.watching:
        raise Failed("--output-watch-events goes with --watch or --watch-only only")
    if query.sort_by:
        check_order(query.sort_by)
    if query.files and query.words:
        raise Failed("-f names the objects already: leave out kinds and names")
    if not query.files and not query.words:
        raise Failed("say which kind: for example `deployments`, or -f FILE\nSee 'karmadactl get --help' for usage.")
    targets = [] if query.files else split_target(query.words)
    if query.files and query.watching:
        raise Failed("a watch follows one kind: name it in place of -f")
    if (query.selector or query.field_selector) and (query.files or any(names for _, names in targets)):
        raise Failed("a selector cannot be combined with names")
    if query.watching and (len(targets) > 1 or len(targets[0][1]) > 1):
        raise Failed("you may only specify a single resource type (or one object) to watch")


def scope_of(query: Query) -> str:
    """Where to look: as asked; else in the control plane, and in members where clusters are named."""
    return query.scope or (MEMBERS if query.clusters else CONTROL)


async def get(target: ControlPlaneOptions, query: Query) -> int:
    """Print what was asked for; 1 when an endpoint refused or did not answer, 0 otherwise."""
    check(query)
    scope = scope_of(query)
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(open_control(target))
        namespace = "" if query.all_namespaces else query.namespace or control.namespace
        async with patience("asking the clusters"):
            here = Endpoint(CONTROL_LABEL, control.client, control=True)
            away = await members(control.client, query.clusters) if scope != CONTROL else []
            endpoints = [*([here] if scope != MEMBERS else []), *away]
            if not endpoints:
                complain("No member clusters found in the control plane.")
                return 0
            served = await discover(control.client)
            results = [
                (asked, await ask(endpoints, asked, asked.namespace or namespace, query))
                for asked in await asked_of(query, served, away, query.namespace)
            ]
        if query.watching:
            if len(results) > 1:
                raise Failed("you may only specify a single resource type (or one object) to watch")
            asked, found = results[0]
            return await follow(asked, found, namespace, query, _look(asked, query, several=False))
        return _print(results, query, namespace)


def _print(results: list[tuple[Asked, list[Found]]], query: Query, namespace: str) -> int:
    troubles = [trouble for _, found in results for one in found for trouble in one.troubles]
    failure: Failed | None = None
    text = ""
    try:
        text = _tables(results, query) if query.readable else _documents(results, query)
    except Failed as error:
        failure = error
    sys.stdout.write(text)
    sys.stdout.flush()
    none = not any(_items(one, query) if not query.readable else _rows(one) for _, found in results for one in found)
    if none and not troubles and not failure and not query.ignore_not_found:
        namespaced = namespace and any(asked.resource.namespaced for asked, _ in results)
        complain(f"No resources found in {namespace} namespace." if namespaced else "No resources found")
    for trouble in troubles:
        complain(trouble)
    if failure is not None:
        raise failure
    return 1 if troubles else 0


def _look(asked: Asked, query: Query, *, several: bool) -> Look:
    resource = asked.resource
    kind = f"{resource.kind.lower()}.{resource.group}".rstrip(".")
    return Look(
        wide=query.output == "wide",
        namespaces=query.all_namespaces and resource.namespaced,
        labels=query.show_labels,
        label_columns=query.label_columns,
        no_headers=query.no_headers,
        prefix=f"{kind}/" if query.show_kind or several else "",
        # Pods are never written by policies themselves: the column is of little use for them.
        adoption=query.output == "wide" or resource.group != "" or resource.name != "pods",
        order=query.sort_by,
    )


def _tables(results: list[tuple[Asked, list[Found]]], query: Query) -> str:
    several = len({asked.resource for asked, _ in results}) > 1
    texts = []
    for asked, found in sorted(results, key=lambda one: _order(one[0].resource)):
        parts = [Part(one.endpoint.name, answer, one.endpoint.control) for one in found for answer in one.answers]
        texts.append(merged(parts, _look(asked, query, several=several)))
    return "\n".join(filter(None, texts))


def _order(resource: ApiResource) -> str:
    """What tables of several kinds are sorted by: Karmada's order."""
    return f"{resource.group}/{resource.version}, Resource={resource.name}"


def _documents(results: list[tuple[Asked, list[Found]]], query: Query) -> str:
    """One document per cluster: the object itself when one name was asked for, a List otherwise."""
    by_cluster: dict[str, list[Manifest]] = {}
    for _, found in results:
        for one in found:
            if one.answers:
                by_cluster.setdefault(one.endpoint.name, []).extend(_items(one, query))
    single = sum(len(asked.names) or 2 for asked, _ in results) == 1
    documents = []
    for items in by_cluster.values():
        if single:
            documents += items
        else:
            in_order = ordered(items, query.sort_by, lambda item: item)
            documents.append(
                {"apiVersion": "v1", "items": in_order, "kind": "List", "metadata": {"resourceVersion": ""}}
            )
    return printer_of(query)(documents) if documents else ""


def _rows(found: Found) -> list[object]:
    return [row for answer in found.answers for row in answer.get("rows") or answer.get("items") or ()]


def _items(found: Found, query: Query) -> list[Manifest]:
    """Objects of answers, each with its own kind, without the bookkeeping of field owners unless that is wanted."""
    items = []
    for answer in found.answers:
        if "items" not in answer:
            items.append(answer)
            continue
        kind = str(answer.get("kind", "")).removesuffix("List")
        items += [{"apiVersion": answer.get("apiVersion"), "kind": kind, **item} for item in answer["items"] or ()]
    if not query.show_managed_fields:
        for item in items:
            item["metadata"].pop("managedFields", None)
    return items

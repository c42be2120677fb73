"""Values for completion that the control plane knows: kinds, names, members, namespaces; none where it is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple

from services._kit.kube.client import KubeClient, resource_path
from services.cli.common.control_plane import kubeconfig_path, open_control, read_kubeconfig
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.completion.completer import Asked, Item
from services.cli.members.clusters import CLUSTERS, ProxiedClient, door_to_members
from services.cli.objects.kind_lookup import discover, find

_SECONDS: Final = 3.0
"""A shell waits for it."""
_MOST: Final = "500"


class Place(NamedTuple):
    """Where values are found: the control plane, the one member that is named (else the control plane), a namespace."""

    control: KubeClient
    inside: KubeClient
    namespace: str


Find = Callable[[Place], Coroutine[Any, Any, Sequence[Item]]]


def members_of(asked: Asked) -> list[Item]:
    """Names of the members."""

    async def find_them(place: Place) -> list[Item]:
        return await _names(place.control, CLUSTERS)

    return _asked(asked, find_them)


def namespaces_of(asked: Asked) -> list[Item]:
    """Names of the namespaces."""

    async def find_them(place: Place) -> list[Item]:
        return await _names(place.control, resource_path("", "v1", "namespaces"))

    return _asked(asked, find_them)


def contexts_of(asked: Asked) -> list[Item]:
    """Names of the contexts of the kubeconfig."""
    try:
        loaded = read_kubeconfig(kubeconfig_path(_target(asked.given).kubeconfig))
        return [Item(str(entry.get("name"))) for entry in loaded.get("contexts") or ()]
    except Exception:  # noqa: BLE001 - a completion that fails offers nothing
        return []


def objects_of(asked: Asked) -> list[Item]:
    """Kinds for the first word, names of objects for the others; with a slash both in one word."""
    kind, slash, _ = asked.incomplete.partition("/")

    async def find_them(place: Place) -> list[Item]:
        namespace = str(asked.given.get("namespace") or place.namespace)
        served = await discover(place.control)
        if not slash and not asked.words:
            kinds = {one.name: one for one in reversed(served) if "list" in one.verbs}
            return [Item(name, one.api_version) for name, one in sorted(kinds.items())]
        if not slash and "/" in asked.words[0]:
            return []
        one = find(served, kind if slash else asked.words[0])
        path = resource_path(one.group, one.version, one.name, namespace if one.namespaced else "")
        head = f"{kind}/" if slash else ""
        taken = set(asked.words[1:])
        return [Item(f"{head}{item.value}") for item in await _names(place.inside, path) if item.value not in taken]

    return _asked(asked, find_them)


def clusters_or_taints_of(asked: Asked) -> list[Item]:
    """For `taint`: the word `clusters`, then names of members."""
    return members_of(asked) if asked.words else [Item("clusters")]


async def _names(client: KubeClient, path: str) -> list[Item]:
    listed = await client.get(path, params={"limit": _MOST})
    return [Item(str(item["metadata"]["name"])) for item in listed.get("items") or ()]


def _asked(asked: Asked, find_them: Find) -> list[Item]:
    async def ask() -> list[Item]:
        async with asyncio.timeout(_SECONDS), open_control(_target(asked.given)) as control:
            named = asked.given.get("clusters") or ()
            one = named[0] if isinstance(named, list | tuple) and len(named) == 1 and "," not in named[0] else ""
            inside = control.client
            if one:
                inside = ProxiedClient(control.client, one, await door_to_members(control.client))
            return list(await find_them(Place(control.client, inside, control.namespace)))

    try:
        return asyncio.run(ask())
    except Exception:  # noqa: BLE001 - a completion that fails offers nothing
        return []


def _target(given: Mapping[str, Any]) -> ControlPlaneOptions:
    return ControlPlaneOptions(str(given.get("kubeconfig") or ""), str(given.get("context") or ""))

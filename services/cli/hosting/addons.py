"""The commands `karmadactl addons …`: what an installation on a host cluster can do without."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient
from services.cli.common.control_plane import client_of, kubeconfig_path
from services.cli.common.running import Failed, complain, patience
from services.cli.hosting import metrics_adapter, search_addon
from services.cli.hosting.addon_options import (
    ADAPTER,
    ADDONS,
    SEARCH,
    AddonImages,
    AddonPriorities,
    AddonReplicas,
    DisableOptions,
    EnableOptions,
    Reached,
    Status,
)
from services.cli.hosting.deinit import confirmed
from services.cli.hosting.init_options import Host
from services.cli.hosting.rolling_out import missing, path_of, until_ready

SERVICES: Final = dict(zip(ADDONS, ("descheduler", "gateway", "estimator", "search"), strict=True))
"""The service of each add-on; that of the metrics adapter has other work as well, and runs in any case."""
_EVERY: Final = "all"


def chosen(names: Sequence[str]) -> list[str]:
    """The add-ons that words mean; raises Failed for others."""
    if not names:
        raise Failed(f"say which: {', '.join(ADDONS)}, or {_EVERY}")
    unknown = [name for name in names if name not in (*ADDONS, _EVERY)]
    if unknown:
        raise Failed(f"there is no add-on {', '.join(unknown)}; there are {', '.join(ADDONS)}, and {_EVERY}")
    if _EVERY in names:
        return list(ADDONS)
    return list(dict.fromkeys(names))


async def enable(names: Sequence[str], options: EnableOptions) -> int:
    """Run add-ons; raises Failed where one does not get ready, or was never installed."""
    if options.member or options.reached.cluster:
        complain("note: --cluster, --member-kubeconfig: one estimator looks into every member, by what join has stored")
    async with _host(options.host) as host:
        found = await _installed(host, options.host.namespace, names, options.reached)
        for name, workload in found:
            index = ADDONS.index(name)
            if name == ADAPTER:
                _note_unused(options)
                continue
            container = workload["spec"]["template"]["spec"]["containers"][0]
            image = options.images[index]
            if not image and options.registry:
                image = f"{options.registry.rstrip('/')}/{container['image'].rpartition('/')[2]}"
            pod: Manifest = {"priorityClassName": options.priorities[index]}
            if image:
                pod["containers"] = [{"name": container["name"], "image": image}]
            change = {"spec": {"replicas": options.replicas[index], "template": {"spec": pod}}}
            path = path_of("Deployment", "apps/v1", options.host.namespace, SERVICES[name])
            await host.patch(path, change, "application/strategic-merge-patch+json")
        for name, _ in found:
            await until_ready(
                host, "Deployment", options.host.namespace, SERVICES[name], options.pod_timeout, "--pod-timeout"
            )
            if name == ADAPTER:
                async with metrics_adapter.reached(options.reached) as control:
                    await metrics_adapter.enable(control, options.api_timeout)
            elif name == SEARCH:
                await search_addon.enable(options.reached, options.host.namespace)
            print(f"{name} is enabled")
    return 0


async def disable(names: Sequence[str], options: DisableOptions) -> int:
    """Run add-ons no longer; 1 when the answer to the question is no. Raises Failed."""
    async with _host(options.host) as host:
        found = await _installed(host, options.host.namespace, names, options.reached)
        shown = ", ".join(name for name, _ in found)
        if not options.force and not confirmed(f"{shown} will be stopped. Go on? [y/N] "):
            return 1
        for name, workload in found:
            if name == ADAPTER:
                async with metrics_adapter.reached(options.reached) as control:
                    await metrics_adapter.disable(control)
            elif workload["spec"].get("replicas"):
                if name == SEARCH:
                    await search_addon.disable(options.reached)
                path = path_of("Deployment", "apps/v1", options.host.namespace, SERVICES[name])
                await host.patch(path, {"spec": {"replicas": 0}})
            print(f"{name} is disabled")
    return 0


async def show(host_options: Host, reached: Reached) -> int:
    """Print each add-on and whether it runs."""
    async with _host(host_options) as host:
        rows = [(name, await _status(host, host_options.namespace, name, reached)) for name in ADDONS]
    print(bordered(("ADDON NAME", "STATUS"), rows), end="")
    return 0


def status_of(workload: Manifest | None) -> Status:
    """What a Deployment says of an add-on; None where there is none."""
    if workload is None or not workload["spec"].get("replicas"):
        return "disabled"
    return "unhealthy" if missing(workload) else "enabled"


def bordered(headers: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """A table with lines around its cells."""
    widths = [max(len(row[index]) for row in (headers, *rows)) for index in range(2)]
    line = f"+{'+'.join('-' * (width + 2) for width in widths)}+\n"
    shown = [f"| {first.ljust(widths[0])} | {second.ljust(widths[1])} |\n" for first, second in (headers, *rows)]
    return f"{line}{shown[0]}{line}{''.join(shown[1:])}{line}"


async def _status(host: KubeClient, namespace: str, name: str, reached: Reached) -> Status:
    if name == ADAPTER:
        return await metrics_adapter.status(reached)
    try:
        return status_of(await host.get(path_of("Deployment", "apps/v1", namespace, SERVICES[name])))
    except ApiError as error:
        return "disabled" if error.status == 404 else "unknown"


def _note_unused(options: EnableOptions) -> None:
    """Say which options have no effect: the gateway has other work as well."""
    index = ADDONS.index(ADAPTER)
    given = (options.images[index], options.replicas[index], options.priorities[index])
    if given != (AddonImages()[index], AddonReplicas()[index], AddonPriorities()[index]):
        complain(
            f"note: --{ADAPTER}-image, -replicas, -priority-class: it is a part of the gateway, which stays as it is"
        )


async def _installed(
    host: KubeClient, namespace: str, names: Sequence[str], reached: Reached
) -> list[tuple[str, Manifest]]:
    """The chosen add-ons with their workloads; of all, those that the installation has. Raises Failed."""
    found = []
    for name in chosen(names):
        try:
            if name == ADAPTER:
                async with metrics_adapter.reached(reached):
                    pass
            found.append((name, await _workload(host, namespace, name)))
        except Failed as error:
            if _EVERY not in names:
                raise
            complain(f"note: {name} is left out: {error}")
    return found


async def _workload(host: KubeClient, namespace: str, name: str) -> Manifest:
    try:
        return await host.get(path_of("Deployment", "apps/v1", namespace, SERVICES[name]))
    except ApiError as error:
        if error.status != 404:
            raise
        raise Failed(
            f"namespace {namespace} of the host cluster has no Deployment {SERVICES[name]}: init has not installed it "
            "there; say which namespace with --namespace"
        ) from None


@asynccontextmanager
async def _host(options: Host) -> AsyncIterator[KubeClient]:
    path = kubeconfig_path(options.kubeconfig)
    host = await client_of(path, path, options.context)
    try:
        async with patience("asking the host cluster"):
            yield host
    finally:
        await host.close()

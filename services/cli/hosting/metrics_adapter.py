"""The add-on karmada-metrics-adapter: the APIServices by which a control plane answers for metrics of all members.

The gateway answers; without them it is not asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services.cli.common.control_plane import client_of
from services.cli.common.running import Failed, NotReady, patience
from services.cli.common.waiting import condition, wait_until
from services.cli.hosting.addon_options import Reached, Status
from services.cli.hosting.rolling_out import path_of, put, remove
from services.cli.installation.gateway_setup import GATEWAY_OF, METRICS_SERVED, api_service

_VERSION: Final = "apiregistration.k8s.io/v1"
_NAMES: Final = tuple(served.name for served in METRICS_SERVED)


@asynccontextmanager
async def reached(options: Reached) -> AsyncIterator[KubeClient]:
    """The control plane that options name; raises Failed where there is no kubeconfig of it."""
    path = _kubeconfig(options)
    control = await client_of(path, path, options.context)
    try:
        async with patience("asking the control plane"):
            yield control
    finally:
        await control.close()


def _kubeconfig(options: Reached) -> Path:
    path = Path(options.kubeconfig).expanduser()
    if not path.is_file():
        raise Failed(f"kubeconfig {path} of the control plane is not there; give another with --karmada-kubeconfig")
    return path


async def enable(control: KubeClient, seconds: float) -> None:
    """Have the gateway asked for metrics, and wait until it answers; raises Failed where it does not in time."""
    try:
        gateway = await control.get(_path(GATEWAY_OF.name))
    except ApiError as error:
        if error.status != 404:
            raise
        raise Failed(
            f"the control plane {control.server} sends nothing to a gateway: it has no APIService {GATEWAY_OF.name}; "
            "karmadactl init makes it"
        ) from None
    for served in METRICS_SERVED:
        await put(control, api_service(served, gateway["spec"]["caBundle"], gateway["spec"]["service"]))

    async def look() -> str:
        try:
            return trouble(await _found(control))
        except (ApiError, Unreachable) as error:
            return str(error)

    try:
        async with patience("waiting for answers about metrics"):
            await wait_until("metrics of members", look, seconds)
    except NotReady as error:
        raise Failed(f"{error} within {seconds:g} s; give it more time with --apiservice-timeout") from None


async def disable(control: KubeClient) -> None:
    """Have the gateway asked for metrics no more."""
    for name in _NAMES:
        await remove(control, _path(name))


async def status(options: Reached) -> Status:
    """What the control plane says of it; unknown where it cannot be asked."""
    try:
        async with reached(options) as control:
            return status_of(await _found(control))
    except (ApiError, Unreachable, Failed):
        return "unknown"


def status_of(found: Sequence[Manifest | None]) -> Status:
    """Whether it is enabled, by its APIServices; None for one that is not there."""
    if not any(found):
        return "disabled"
    return "unhealthy" if trouble(found) else "enabled"


def trouble(found: Sequence[Manifest | None]) -> str:
    """Why not all of its APIServices answer; empty when they do."""
    for name, service in zip(_NAMES, found, strict=True):
        if service is None:
            return f"APIService {name} is missing"
        if why := unavailable(service):
            return f"APIService {why}"
    return ""


def unavailable(service: Manifest) -> str:
    """The name of an APIService that does not answer, and why; empty when it does."""
    available = condition(service, "Available")
    if available.get("status") == "True":
        return ""
    return f"{service['metadata']['name']}: {available.get('message') or 'not available yet'}"


async def _found(control: KubeClient) -> list[Manifest | None]:
    return [await _service(control, name) for name in _NAMES]


async def _service(control: KubeClient, name: str) -> Manifest | None:
    try:
        return await control.get(_path(name))
    except ApiError as error:
        if error.status != 404:
            raise
        return None


def _path(name: str) -> str:
    return path_of("APIService", _VERSION, "", name)

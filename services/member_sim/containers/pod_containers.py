"""Finds one container of a pod: its spec, its state, and why it cannot be entered or has no log."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from schemas.manifest import Manifest
from services.apiserver.core.status_errors import ApiError, bad_request
from services.member_sim.world.world_model import seconds

_PLACES = (
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


class Run(Struct, frozen=True):
    """One run of a container: which restart it is, since when and until when (Unix seconds), and how it ended."""

    restart: int
    began: float
    ended: float | None = None
    code: int = 0


class Container(Struct, frozen=True):
    """A container of a pod; `run` is the present or last one, None before the first."""

    pod: Manifest
    spec: Manifest
    run: Run | None
    previous: Run | None
    running: bool
    waiting: str = ""
    """Why it does not run, as its status says."""

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return str(self.spec["name"])

    @property
    def image(self) -> str:
        """Its image without registry, path, tag and digest."""
        return str(self.spec.get("image") or "").partition("@")[0].rpartition("/")[2].partition(":")[0]


def find(pod: Manifest, name: str) -> Container:
    """The container of that name, which the pod has."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for place, statuses in _PLACES:
        for container in spec.get(place) or ():
            if container["name"] == name:
                found = next((s for s in status.get(statuses) or () if s.get("name") == name), None)
                return _container(pod, container, found)
    raise bad_request(f"container {name} is not valid for pod {pod['metadata']['name']}")


def _container(pod: Manifest, spec: Manifest, status: Manifest | None) -> Container:
    if status is None:
        return Container(pod, spec, None, None, running=False, waiting="PodInitializing")
    state, last = status.get("state") or {}, status.get("lastState") or {}
    count = int(status.get("restartCount") or 0)
    started = seconds((pod.get("status") or {}).get("startTime") or "")
    previous = _ended(last.get("terminated"), max(count - 1, 0))
    if "running" in state:
        began = seconds((state["running"] or {}).get("startedAt") or "") or started
        return Container(pod, spec, Run(count, began), previous, running=True)
    ended = _ended(state.get("terminated"), count)
    if ended is not None:
        return Container(pod, spec, ended, previous, running=False)
    waiting = str((state.get("waiting") or {}).get("reason") or "ContainerCreating")
    # Between two attempts the log is that of the last one.
    return Container(pod, spec, previous, previous, running=False, waiting=waiting)


def _ended(state: Manifest | None, restart: int) -> Run | None:
    if not state:
        return None
    ended = seconds(state.get("finishedAt") or "")
    began = seconds(state.get("startedAt") or "") or ended
    return Run(restart, min(began, ended), ended, int(state.get("exitCode") or 0))


def run_with_log(container: Container, *, previous: bool) -> Run:
    """The run whose log is meant; raises ApiError 400, in the words of a kubelet, where there is none."""
    pod = container.pod["metadata"]["name"]
    shown = f'container "{container.name}" in pod "{pod}"'
    if previous:
        if container.previous is None:
            raise bad_request(f'previous terminated container "{container.name}" in pod "{pod}" not found')
        return container.previous
    if container.run is not None:
        return container.run
    raise bad_request(f"{shown} is waiting to start: {_WAITING.get(container.waiting, container.waiting)}")


_WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def check_running(container: Container) -> None:
    """Raise ApiError 500 for a container in which nothing can be run."""
    if not container.running:
        details: dict[str, Any] = {"causes": [{"message": f'container not found ("{container.name}")'}]}
        text = f'unable to upgrade connection: container not found ("{container.name}")'
        raise ApiError(500, "InternalError", text, details)

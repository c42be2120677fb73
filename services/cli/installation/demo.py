"""The command `fleetlog demo`: an installation of its own, one Deployment on two clusters, and its history."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from schemas.keys import ObjectKey
from services._kit.concurrency.tasks import child
from services._kit.credentials.access import open_member
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._kit.log.fact_history import story
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.layout import CONTROL, Layout
from services.cli.common.logbook import log_access, open_log, streams
from services.cli.common.printing import table
from services.cli.common.running import Failed, NotReady, patience
from services.cli.common.waiting import wait_until
from services.cli.objects.apply_manifests import read_manifests, write
from services.cli.objects.kind_lookup import discover
from services.cli.queries.history_output import render_history

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
FILES: Final = ("nginx-demo.yaml", "nginx-propagation.yaml")
KEY: Final = ObjectKey(group="apps", resource="deployments", namespace="default", name="nginx")
PATIENCE: Final = 60.0
_STOPPING: Final = 30.0


class Copy(Struct, frozen=True):
    """What one member runs of the Deployment."""

    cluster: str
    ready: int
    wanted: int
    pods: tuple[str, ...]


async def demo(directory: Path | None, *, keep: bool = False) -> int:
    """Run the demonstration; raises Failed when something does not converge within a minute.

    A directory of its own is removed afterwards unless `keep`; one that was given stays.
    """
    own = directory is None
    place = Path(tempfile.mkdtemp(prefix="fleetlog-demo-")) if directory is None else directory
    stop_on_sigterm()
    finished = False
    try:
        async with installation(place):
            await show(Layout(place))
        finished = True
    finally:
        if own and (finished and not keep):
            shutil.rmtree(place, ignore_errors=True)
        else:
            print(f"The data stays in {place}; go on with: fleetlog up --dir {place}", file=sys.stderr)
    return 0


def stop_on_sigterm() -> None:
    """Let SIGTERM cancel this task, so that the installation is stopped on the way out."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


@asynccontextmanager
async def installation(directory: Path) -> AsyncIterator[None]:
    """A child process `fleetlog up` that is ready; stopped afterwards. Raises Failed when it does not start."""
    program = "from services.cli.fleetlog import main; main()"
    command = [sys.executable, "-c", program, "up", "--dir", str(directory)]
    # A session of its own: a Ctrl-C reaches this process only, which then stops the child in good order.
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, start_new_session=True)
    copying = child(_copy_steps(process))
    try:
        await _until_ready(process, copying, directory)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(_STOPPING):
                await process.wait()
        except TimeoutError:
            process.kill()
        await copying


async def _until_ready(child: Process, copying: asyncio.Task[None], directory: Path) -> None:
    assert child.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            said = await child.stdout.readline()
    except TimeoutError:
        raise Failed(f"the installation is not ready after {PATIENCE:g} s; see {directory}/logs") from None
    if said.strip() != b"ready":
        await copying
        raise Failed(f"the installation did not start; see above and {directory}/logs")


async def _copy_steps(child: Process) -> None:
    """Show the steps of the start; what follows them speaks to people who started it themselves."""
    assert child.stderr is not None
    steps = True
    async for line in child.stderr:
        steps = steps and bool(line.strip())
        if steps:
            sys.stderr.write(line.decode(errors="replace"))
            sys.stderr.flush()


async def show(layout: Layout) -> None:
    """Apply the example to a running installation and print what became of it."""
    async with open_control(ControlPlaneOptions(str(layout.kubeconfig(CONTROL)))) as control:
        client = control.client
        print()
        resources = await discover(client)
        for name in FILES:
            for manifest in read_manifests(EXAMPLES / name):
                print(f"$ kubectl apply -f {name}\n{await write(client, resources, manifest, KEY.namespace)}")
        try:
            async with patience("waiting for the replicas"):
                copies = await _until_running(client)
        except NotReady as error:
            await _print_history(layout)
            raise Failed(f"not converged after {PATIENCE:g} s: {error}; see {layout.directory}/logs") from None
        template = await client.get(_path())
    rows = [(copy.cluster, f"{copy.ready}/{copy.wanted}", ", ".join(copy.pods)) for copy in copies]
    print("\nThe replicas run here:\n" + table(("cluster", "ready", "pods"), rows))
    status = template["status"]
    summed = ", ".join(
        f"{status.get(field, 0)} {word}"
        for field, word in (
            ("replicas", "replicas"),
            ("updatedReplicas", "updated"),
            ("readyReplicas", "ready"),
            ("availableReplicas", "available"),
        )
    )
    print(f"The status summed on the control plane: {summed}\n")
    await _print_history(layout)


async def _print_history(layout: Layout) -> None:
    async with open_log(log_access(layout.directory)) as connection:
        entries = await story(streams(connection), KEY)
    if not entries:
        print("The log holds no fact about it yet.", file=sys.stderr)
        return
    print(f"What happened to {KEY}, from the log:")
    print(render_history(entries), end="", flush=True)


def _path() -> str:
    return resource_path(KEY.group, "v1", KEY.resource, KEY.namespace, KEY.name)


async def _until_running(client: KubeClient) -> list[Copy]:
    """The copies once every replica is ready in its member and the control plane says so; raises NotReady."""
    copies: list[Copy] = []
    clusters = (await client.get(resource_path("cluster.karmada.io", "v1alpha1", "clusters")))["items"]
    members = {item["metadata"]["name"]: await open_member(client, item["spec"]) for item in clusters}
    deadline = time.monotonic() + PATIENCE

    async def running() -> str:
        nonlocal copies
        template = await client.get(_path())
        wanted = template["spec"]["replicas"]
        found = await asyncio.gather(*(_copy(name, member) for name, member in members.items()))
        copies = [copy for copy in found if copy is not None]
        ready = sum(copy.ready for copy in copies)
        if ready != wanted or any(copy.ready != copy.wanted for copy in copies):
            where = ", ".join(f"{copy.cluster} {copy.ready}/{copy.wanted}" for copy in copies) or "no cluster has any"
            return f"{ready} of {wanted} replicas are ready ({where})"
        status = template.get("status") or {}
        if (
            status.get("readyReplicas") != wanted
            or status.get("observedGeneration") != template["metadata"]["generation"]
        ):
            return f"the control plane counts {status.get('readyReplicas', 0)} of {wanted} replicas"
        return ""

    try:
        await wait_until(f"deployment {KEY.name}", running, deadline - time.monotonic())
    finally:
        await asyncio.gather(*(member.close() for member in members.values()))
    return copies


async def _copy(cluster: str, member: KubeClient) -> Copy | None:
    try:
        deployment = await member.get(_path())
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    selector = ",".join(f"{name}={value}" for name, value in deployment["spec"]["selector"]["matchLabels"].items())
    pods = await member.get(resource_path("", "v1", "pods", KEY.namespace), params={"labelSelector": selector})
    names = tuple(sorted(pod["metadata"]["name"] for pod in pods["items"]))
    status = deployment.get("status") or {}
    return Copy(cluster, status.get("readyReplicas", 0), deployment["spec"]["replicas"], names)

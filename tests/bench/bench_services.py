"""Measures how soon endpoints of an exported Service follow in a member that imports it; one JSON line per figure.

EndpointSlices are written directly into the exporting member, so that no simulated pod is part of the figure.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from tests.bench.many_services import measured_many
from tests.bench.measures import emit
from tests.e2e.fleet import Fleet
from tests.e2e.space import Space, clusters

API: Final = "multicluster.x-k8s.io/v1alpha1"
SPACE: Final = "bench"
EXPORTERS: Final = {"member1": "push", "member3": "pull"}
IMPORTER: Final = "member2"
SLICES: Final = resource_path("discovery.k8s.io", "v1", "endpointslices", SPACE)
IMPORTED: Final = {"labelSelector": "kubernetes.io/service-name=derived-web"}
PAUSE: Final = 0.2


def endpoint_slice(name: str, third: int, count: int = 1) -> Manifest:
    """A slice of the exported Service; its addresses are in 10.9.<third>.0/24."""
    target = {"kind": "Pod", "namespace": SPACE, "uid": "8f14e45f-ceea-467f-9e3c-2b6d1f0a9c11"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": SPACE, "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [f"10.9.{third}.{number + 1}"], "targetRef": {**target, "name": f"web-5d9c7b6f4-{number:05}"}}
            for number in range(count)
        ],
        "ports": [{"name": "", "port": 8080}],
    }


def prepare(fleet: Fleet) -> None:
    """A Service that two members export and a third imports."""
    space = Space(fleet, SPACE)
    space.control.run("create", "namespace", SPACE)
    named = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    kinds = [{**named, "name": f"{kind}.multicluster.x-k8s.io"} for kind in ("serviceexports", "serviceimports")]
    policy = {"apiVersion": "policy.karmada.io/v1alpha1", "metadata": {"name": "definitions"}}
    spec = {"resourceSelectors": kinds, "placement": clusters(*space.member)}
    space.apply({**policy, "kind": "ClusterPropagationPolicy", "spec": spec})
    export = {"apiVersion": API, "kind": "ServiceExport", "metadata": {"name": "web", "namespace": SPACE}}
    ports = {"type": "ClusterSetIP", "ports": [{"port": 80}]}
    imported = {**export, "kind": "ServiceImport", "spec": ports}
    for manifest, members in ((export, tuple(EXPORTERS)), (imported, (IMPORTER,))):
        space.apply(manifest)
        named = {"metadata": {"name": manifest["kind"].lower(), "namespace": SPACE}}
        selector = {"apiVersion": API, "kind": manifest["kind"]}
        spec = {"resourceSelectors": [selector], "placement": clusters(*members)}
        space.apply({**policy, **named, "kind": "PropagationPolicy", "spec": spec})
    space.until_in("serviceexport", "web", tuple(EXPORTERS))
    space.until_in("service", "derived-web", (IMPORTER,))


async def seen(importer: KubeClient, name: str, address: str) -> None:
    """Return once a slice of the importing member begins with an address."""
    while True:
        try:
            found = await importer.get(f"{SLICES}/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            if found["endpoints"] and found["endpoints"][0]["addresses"] == [address]:
                return
        await asyncio.sleep(0.002)


async def changes(exporter: KubeClient, importer: KubeClient, member: str, rounds: Sequence[int]) -> list[float]:
    """Seconds from each change of a slice to the importing member."""
    took = []
    for third in rounds:
        await asyncio.sleep(PAUSE)
        began = time.perf_counter()
        wanted = endpoint_slice("web-x", third)
        await exporter.patch(f"{SLICES}/web-x", {"endpoints": wanted["endpoints"]})
        await seen(importer, f"imported-{member}-web-x", f"10.9.{third}.1")
        took.append(time.perf_counter() - began)
    return took


def tell(name: str, took: Sequence[float], **more: object) -> None:
    """Print median and longest of a series."""
    emit(f"{name}: median", 1000 * statistics.median(took), "ms", longest=round(1000 * max(took)), **more)


async def measured(fleet: Fleet, arguments: argparse.Namespace) -> None:
    """Change, wait, change again; then the same beside many endpoints."""
    members = (*EXPORTERS, IMPORTER)
    client = {name: await KubeClient.from_kubeconfig(fleet.layout.kubeconfig(name)) for name in members}
    importer = client[IMPORTER]
    for member, mode in EXPORTERS.items():
        await client[member].create(SLICES, endpoint_slice("web-x", 0))
        await seen(importer, f"imported-{member}-web-x", "10.9.0.1")
        took = await changes(client[member], importer, member, range(1, arguments.rounds + 1))
        tell(f"endpoint change from a {mode} member to an importing one", took, rounds=arguments.rounds)
    exporter = client["member1"]
    began = time.perf_counter()
    for number in range(arguments.slices):
        await exporter.create(SLICES, endpoint_slice(f"web-{number:03}", 100 + number % 100, 100))
    wanted = 100 * arguments.slices + len(EXPORTERS)
    while True:
        found = await importer.get(SLICES, params=IMPORTED)
        if sum(len(item.get("endpoints") or ()) for item in found["items"]) == wanted:
            break
        await asyncio.sleep(0.02)
    size = {"endpoints": wanted}
    emit("new endpoints in an importing member", time.perf_counter() - began, "s", **size)
    rounds = range(arguments.rounds + 1, arguments.rounds + 11)
    tell("endpoint change beside many", await changes(exporter, importer, "member1", rounds), rounds=10, **size)
    for each in client.values():
        await each.close()


def many(arguments: argparse.Namespace) -> None:
    """Many Services on an installation with many members."""
    with tempfile.TemporaryDirectory(prefix="fleetlog-bench-") as directory:
        fleet = Fleet(Path(directory) / "services", ["--members", str(arguments.members), "--nodes", "1"]).start()
        try:
            asyncio.run(measured_many(fleet, arguments.services, arguments.endpoints, arguments.rounds))
        finally:
            fleet.stop()


def main() -> None:
    """Run the bench on an installation of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="changes of one endpoint, at most 80")
    parser.add_argument("--slices", type=int, default=50, help="slices of 100 endpoints")
    parser.add_argument("--services", type=int, default=0, help="measure so many Services in many members instead")
    parser.add_argument("--members", type=int, default=20, help="members that export and import them")
    parser.add_argument("--endpoints", type=int, default=20, help="endpoints of each")
    arguments = parser.parse_args()
    if arguments.services:
        many(arguments)
        return
    with tempfile.TemporaryDirectory(prefix="fleetlog-bench-") as directory:
        fleet = Fleet(Path(directory) / "services").start()
        try:
            prepare(fleet)
            asyncio.run(measured(fleet, arguments))
        finally:
            fleet.stop()


if __name__ == "__main__":
    main()

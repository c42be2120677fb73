"""The network between pods that simulated members do not have: a Linux network namespace for each cluster.

A namespace between them routes. The test tells where pods run, as a kubelet tells a network plugin: each pod gets its
address in the namespace of its cluster, a route to it, and a web server.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from schemas.manifest import Manifest
from tests.e2e.fleet import Kubectl

HERE: Final = Path(__file__).parent
SECONDS: Final = 30.0
PORT: Final = 8080
"""At which every pod serves."""
REFUSED: Final = 7
"""curl's exit code where nobody listens."""


def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command's result; raises AssertionError with its errors."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}"
    return done


def missing() -> str:
    """Why there can be no such network here, in words; empty where there can."""
    for program in ("ip", "curl"):
        if not shutil.which(program):
            return f"{program} is not installed"
    name = f"fltry{os.getpid()}"
    done = run("ip", "netns", "add", name, check=False)
    if done.returncode != 0:
        return f"network namespaces cannot be made: {done.stderr.strip()}"
    made = run("ip", "-n", name, "link", "add", "one", "type", "veth", "peer", "name", "two", check=False)
    run("ip", "netns", "delete", name)
    return f"pairs of interfaces cannot be made: {made.stderr.strip()}" if made.returncode != 0 else ""


class Inside:
    """A program in a namespace that takes commands, one line of JSON each, and answers with one."""

    def __init__(self, namespace: str, program: str, *arguments: str) -> None:
        command = ["ip", "netns", "exec", namespace, sys.executable, "-I", str(HERE / program), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command: Any) -> Any:
        """What it answers."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, f"it ended with {self._process.wait(SECONDS)}"
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(SECONDS)
        process.stdout.close()


class Cluster:
    """The network of one cluster: its pods with their servers, and what proxies its Services."""

    def __init__(self, name: str, number: int, router: str) -> None:
        self.name = name
        self._space = f"fl{os.getpid()}-{name}"
        self._router = router
        self._gateway, self.address = f"100.127.{number}.1", f"100.127.{number}.2"
        self._pods: set[str] = set()
        self._addresses: set[str] = set()
        self._programs: list[Inside] = []
        self._link = f"m{number}"

    def open(self) -> None:
        """Make the namespace, and the line to the router."""
        run("ip", "netns", "add", self._space)
        run("ip", "-n", self._space, "link", "set", "lo", "up")
        peer = ("peer", "name", self._link, "netns", self._router)
        run("ip", "-n", self._space, "link", "add", "eth0", "type", "veth", *peer)
        run("ip", "-n", self._space, "address", "add", f"{self.address}/30", "dev", "eth0")
        run("ip", "-n", self._router, "address", "add", f"{self._gateway}/30", "dev", self._link)
        run("ip", "-n", self._space, "link", "set", "eth0", "up")
        run("ip", "-n", self._router, "link", "set", self._link, "up")
        run("ip", "-n", self._space, "route", "add", "default", "via", self._gateway)
        self._servers = self.program("pod_servers.py", self.name)
        self._proxy = self.program("service_proxy.py")

    def program(self, file: str, *arguments: str) -> Inside:
        """Run a program here until the end."""
        made = Inside(self._space, file, *arguments)
        self._programs.append(made)
        return made

    def close(self) -> None:
        """Take everything away."""
        for program in self._programs:
            program.close()
        run("ip", "netns", "delete", self._space, check=False)

    def run_pods(self, addresses: Iterable[str]) -> None:
        """Give pods their addresses, and a server each; they stay when a pod ends, and count who still comes."""
        for address in sorted(set(addresses) - self._pods):
            self._pods.add(address)
            self.hold(address)
            run("ip", "-n", self._router, "route", "add", f"{address}/32", "via", self.address)
            self._servers.ask({"open": [address, PORT]})

    def hold(self, address: str) -> None:
        """Give the namespace an address."""
        if address not in self._addresses:
            self._addresses.add(address)
            run("ip", "-n", self._space, "address", "add", f"{address}/32", "dev", "lo")

    def requests(self) -> dict[str, int]:
        """Requests that each pod has had, by its address."""
        found: dict[str, int] = self._servers.ask({"counts": True})
        return found

    def serve(self, service: Manifest, port: int, endpoints: Iterable[tuple[str, int]]) -> None:
        """Lead what comes to a port of a Service to these endpoints, from now on."""
        address = service["spec"]["clusterIP"]
        self.hold(address)
        self._proxy.ask({"serve": [address, port], "endpoints": sorted(endpoints)})

    def fetch(self, url: str, times: int = 1) -> tuple[int, list[str]]:
        """Exit code of curl in this cluster, and its answers, each from a connection of its own."""
        curl = ("curl", "--silent", "--max-time", "10", f"{url}?[1-{times}]")
        done = run("ip", "netns", "exec", self._space, *curl, check=False)
        return done.returncode, done.stdout.splitlines()


@contextmanager
def pod_network(names: Sequence[str]) -> Iterator[dict[str, Cluster]]:
    """A network of clusters by name, gone afterwards."""
    router = f"fl{os.getpid()}-router"
    clusters = {name: Cluster(name, number, router) for number, name in enumerate(names)}
    try:
        run("ip", "netns", "add", router)
        run("ip", "netns", "exec", router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for cluster in clusters.values():
            cluster.open()
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.close()
        run("ip", "netns", "delete", router, check=False)


def ready_endpoints(slices: Iterable[Manifest], port_name: str) -> set[tuple[str, int]]:
    """Addresses and ports of the ready endpoints of a Service's port, as kube-proxy reads slices."""
    found = set()
    for item in slices:
        numbers = [port["port"] for port in item.get("ports") or () if (port.get("name") or "") == port_name]
        for endpoint in item.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                found |= {(endpoint["addresses"][0], number) for number in numbers}
    return found


def proxied(cluster: Cluster, member: Kubectl, namespace: str, service: str) -> set[str]:
    """Lead a Service's traffic in a cluster as its API server says now; the addresses that it goes to."""
    found = member.get("service", service, namespace)
    if found is None:
        return set()
    slices = member.items("endpointslices", namespace, f"kubernetes.io/service-name={service}")
    reached: set[str] = set()
    for port in found["spec"]["ports"]:
        endpoints = ready_endpoints(slices, port.get("name") or "")
        cluster.serve(found, port["port"], endpoints)
        reached |= {address for address, _ in endpoints}
    return reached

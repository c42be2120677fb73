"""A member through the control plane with kubectl, and a pod in it that can be entered."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import yaml

from tests.e2e.fleet import Kubectl, until

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"


class Inside:
    """kubectl with the kubeconfig of the control plane, in one member."""

    def __init__(self, kubectl: Kubectl, member: str) -> None:
        document = yaml.safe_load(kubectl.run("config", "view", "-o", "yaml"))
        self.server = f"{document['clusters'][0]['cluster']['server']}{CLUSTERS}/{member}/proxy"
        self.kubectl = kubectl

    def run(self, *arguments: str, namespace: str = "", stdin: str = "") -> str:
        """Output of one command."""
        return self.kubectl.run("--server", self.server, *arguments, namespace=namespace, stdin=stdin)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """What a command that runs on takes and what it says."""
        command = ["kubectl", "--server", self.server, *arguments]
        environment = {**os.environ, "KUBECONFIG": str(self.kubectl.kubeconfig)}
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield process.stdin, process.stdout
            finally:
                process.kill()


@contextmanager
def running_pod(member: Kubectl, namespace: str) -> Iterator[str]:
    """A pod that runs in a member, made there by hand."""
    member.run("create", "deployment", "web", "--image=nginx", namespace=namespace)
    yield until("a pod of the member", lambda: [*_running(member, namespace)])[0]
    member.run("delete", "deployment", "web", namespace=namespace)


def _running(member: Kubectl, namespace: str) -> Iterator[str]:
    for item in member.items("pods", namespace):
        if item.get("status", {}).get("phase") == "Running":
            yield item["metadata"]["name"]

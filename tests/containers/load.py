"""A user who writes all the time while containers come and go, and who knows what was acknowledged."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import Final, Self

from schemas.manifest import Manifest
from tests.e2e.fleet import Failed, Kubectl, until
from tests.e2e.reading import Unread, reader_of

NAMESPACE: Final = "under-load"
_LABEL: Final = "load"
POLICY: Final[Manifest] = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "everywhere", "namespace": NAMESPACE},
    "spec": {
        "resourceSelectors": [
            {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"test": _LABEL}}}
        ],
    },
}
MEMBERS: Final = ("member1", "member2", "member3")


class Load:
    """Creates ConfigMaps one after the other; every object that was acknowledged has to reach every member."""

    def __init__(
        self,
        kubectl: Kubectl,
        beginning: str = "note",
        look: Callable[[str, str], list[Manifest]] | None = None,
        members: Sequence[str] = MEMBERS,
    ) -> None:
        """`look` lists what a member has at a path; without, it is asked through the control plane."""
        self._kubectl = kubectl
        self._look = look or self._through_control_plane
        self._beginning = beginning
        self._members = members
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.tried = 0
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        self.slowest = 0.0
        """Seconds that the slowest acknowledged write took."""

    def prepare(self) -> None:
        """Make namespace and policy."""
        self._kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        placement = {"clusterAffinity": {"clusterNames": [*self._members]}}
        self._kubectl.apply({**POLICY, "spec": {**POLICY["spec"], "placement": placement}})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=60)

    def _write(self) -> None:
        reader = reader_of(self._kubectl.kubeconfig)
        while not self._stop.is_set():
            name = f"{self._beginning}-{self.tried:04}"
            self.tried += 1
            began = time.monotonic()
            try:
                reader.create(
                    "configmap",
                    {"metadata": {"name": name, "labels": {"test": _LABEL}}, "data": {"number": name}},
                    NAMESPACE,
                )
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.acknowledged.append(name)
            except (Unread, OSError, HTTPException) as error:
                self.failures.append(str(error))
            self._stop.wait(0.1)

    def until_tried(self, more: int) -> None:
        """Wait until so many more writes were tried, well or not."""
        wanted = self.tried + more
        until(f"{more} more writes are tried", lambda: self.tried >= wanted, 180)

    def until_acknowledged(self, more: int) -> None:
        """Wait until so many more writes were acknowledged."""
        wanted = len(self.acknowledged) + more
        until(f"{more} more writes are acknowledged", lambda: len(self.acknowledged) >= wanted, 180)

    def missing(self) -> dict[str, list[str]]:
        """What was acknowledged and is not in a member, or not as it was written, by member; some of each."""
        found: dict[str, list[str]] = {}
        for member in self._members:
            try:
                items = self._look(member, f"/api/v1/namespaces/{NAMESPACE}/configmaps")
            except (Failed, RuntimeError) as error:
                return {member: [str(error)]}
            there = {one["metadata"]["name"] for one in items if one.get("data") == {"number": one["metadata"]["name"]}}
            lacking = [name for name in self.acknowledged if name not in there]
            if lacking:
                found[member] = [f"{len(lacking)} of {len(self.acknowledged)}", *lacking[:3]]
        return found

    def _through_control_plane(self, member: str, path: str) -> list[Manifest]:
        proxy = f"/apis/cluster.karmada.io/v1alpha1/clusters/{member}/proxy"
        items: list[Manifest] = json.loads(self._kubectl.run("get", "--raw", f"{proxy}{path}"))["items"]
        return items

    def until_everywhere(self) -> None:
        """Wait until nothing is missing; raises Failed with what is."""
        until("everything acknowledged is in every member", lambda: self.missing() == {} or _fail(self.missing()), 180)


def _fail(missing: object) -> bool:
    raise Failed(str(missing))

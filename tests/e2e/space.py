"""A namespace of one test: objects and policies are applied into it and looked at in every member."""

from __future__ import annotations

import json
from typing import Any

import yaml

from schemas.manifest import Manifest
from tests.e2e.fleet import MANIFESTS, Fleet, Kubectl, until_equal
from tests.support.commands import run_command

EVERYWHERE = ("member1", "member2", "member3")


class Space:
    """One namespace of the control plane and its namesakes in the members."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.name = name
        self.fleet = fleet
        self.control = fleet.kubectl()
        self.member: dict[str, Kubectl] = {member: fleet.kubectl(member) for member in fleet.members}

    def load(self, file: str) -> Manifest:
        """One of the test manifests, moved into this namespace."""
        manifest: Manifest = yaml.safe_load((MANIFESTS / file).read_text())
        manifest["metadata"]["namespace"] = self.name
        return manifest

    def apply(self, manifest: Manifest) -> Manifest:
        """Apply an object to the control plane and return it."""
        self.control.apply(manifest)
        return manifest

    def policy(self, manifest: Manifest, placement: Manifest, **spec: Any) -> Manifest:
        """A propagation policy for one object, named after it; applying it again edits it."""
        name = manifest["metadata"]["name"]
        selector = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "name": name}
        return self.apply(propagation(name, [selector], placement, self.name, **spec))

    def override(self, manifest: Manifest, member: str, overriders: Manifest) -> Manifest:
        """An override policy for one object in one member."""
        selector = {name: manifest[name] for name in ("apiVersion", "kind")} | {"name": manifest["metadata"]["name"]}
        rule = {"targetCluster": {"clusterNames": [member]}, "overriders": overriders}
        return self.apply(
            {
                "apiVersion": "policy.karmada.io/v1alpha1",
                "kind": "OverridePolicy",
                "metadata": {"name": f"{manifest['metadata']['name']}-{member}", "namespace": self.name},
                "spec": {"resourceSelectors": [selector], "overrideRules": [rule]},
            }
        )

    def taint(self, member: str, *taints: Manifest) -> None:
        """Give a cluster these taints and no others; what is written after it returns is placed by them."""
        self.control.patch("cluster", member, {"spec": {"taints": list(taints)}})
        wanted = [(taint["key"], taint["effect"]) for taint in taints]
        until_equal(f"taints of {member} on the log", lambda: self._taints_on_log(member), wanted)

    def _taints_on_log(self, member: str) -> list[tuple[str, str]]:
        words = ("--subject", f"cluster.{member}", "--tail", "1", "-o", "json")
        shown = run_command("fleetlog", "events", "--dir", str(self.fleet.layout.directory), *words).stdout
        spec = json.loads(shown)["data"]["manifest"]["spec"]
        return [(taint["key"], taint["effect"]) for taint in spec.get("taints") or ()]

    def held(self, member: str, kind: str, name: str) -> Manifest | None:
        """An object as a member has it."""
        return self.member[member].get(kind, name, self.name)

    def where(self, kind: str, name: str) -> list[str]:
        """Members that have an object."""
        return [member for member in sorted(self.member) if self.held(member, kind, name) is not None]

    def until_in(self, kind: str, name: str, members: tuple[str, ...]) -> None:
        """Wait until exactly these members have an object."""
        until_equal(f"members with {kind} {name}", lambda: self.where(kind, name), sorted(members))

    def until_field(self, member: str, kind: str, name: str, path: str, wanted: object) -> None:
        """Wait until a field (`spec.replicas`; None: absent) of a member's object has a value."""

        def look() -> object:
            value: object = self.held(member, kind, name) or {}
            for part in path.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            return value

        until_equal(f"{member}: {kind} {name} {path}", look, wanted)

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of the Events of an object."""
        return [
            (event["type"], event["reason"], event["message"])
            for event in self.control.items("events", self.name)
            if event["involvedObject"]["name"] == name
        ]


def clusters(*names: str) -> Manifest:
    """A placement on named clusters."""
    return {"clusterAffinity": {"clusterNames": list(names)}}


def propagation(
    name: str, selectors: list[Manifest], placement: Manifest, namespace: str = "", **spec: Any
) -> Manifest:
    """A PropagationPolicy; without a namespace it has that of the path that it is created at."""
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"resourceSelectors": selectors, "placement": placement, **spec},
    }


def weighed(**weights: int) -> Manifest:
    """A placement that divides replicas by the weights of these clusters."""
    listed = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in weights.items()]
    division = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": listed},
    }
    return {**clusters(*weights), "replicaScheduling": division}

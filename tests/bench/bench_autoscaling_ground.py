"""What bench_autoscaling scales: Deployments in groups of members, their policies and FederatedHPAs."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from tests.bench.crowd import names

SPACE: Final = "scaling"


class Ground:
    """Who runs where: Deployments by name, with the members of each."""

    def __init__(self, autoscalers: int, clusters: int, spread: int) -> None:
        members = names(clusters)
        self.members = members
        self.groups = [members[at : at + spread] for at in range(0, clusters - spread + 1, spread)]
        self.spread = spread
        self.homes = {f"app{number:04}": self.groups[number % len(self.groups)] for number in range(autoscalers)}

    def deployment(self, name: str) -> Manifest:
        """A Deployment with one replica for each of its members."""
        labels = {"app": name}
        group = f"g{self.groups.index(self.homes[name])}"
        container = {"name": "app", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": SPACE, "labels": {**labels, "group": group}},
            "spec": {"replicas": self.spread, "selector": {"matchLabels": labels}, "template": template},
        }

    def policies(self, *, static: bool) -> list[Manifest]:
        """A policy for each group of members."""
        found: list[Manifest] = []
        for number, members in enumerate(self.groups):
            weights: Manifest = {"dynamicWeight": "AvailableReplicas"}
            if static:
                target = {"clusterNames": members}
                weights = {"staticWeightList": [{"targetCluster": target, "weight": 1}]}
            scheduling = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
            selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
            chosen = {**selector, "labelSelector": {"matchLabels": {"group": f"g{number}"}}}
            found.append(
                {
                    "apiVersion": "policy.karmada.io/v1alpha1",
                    "kind": "PropagationPolicy",
                    "metadata": {"name": f"g{number}", "namespace": SPACE},
                    "spec": {
                        "resourceSelectors": [chosen],
                        "placement": {
                            "clusterAffinity": {"clusterNames": members},
                            "replicaScheduling": {**scheduling, "weightPreference": weights},
                        },
                    },
                }
            )
        return found

    def autoscaler(self, name: str) -> Manifest:
        """A FederatedHPA that keeps the replicas as they are until pods use more than usual."""
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
        return {
            "apiVersion": "autoscaling.karmada.io/v1alpha1",
            "kind": "FederatedHPA",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "minReplicas": self.spread,
                "maxReplicas": 2 * self.spread,
                "metrics": [{"type": "Resource", "resource": cpu}],
            },
        }

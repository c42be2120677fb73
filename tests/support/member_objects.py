"""Pods as members have them: of the usual size, with what differs between them."""

from __future__ import annotations

import random
from typing import Any

from schemas.manifest import Manifest

_CONDITIONS = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
_TOLERATION = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def _hex(draw: random.Random, digits: int) -> str:
    return f"{draw.getrandbits(4 * digits):0{digits}x}"


def _uid(draw: random.Random) -> str:
    return "-".join(_hex(draw, digits) for digits in (8, 4, 4, 4, 12))


def pod(
    name: str,
    namespace: str = "shop",
    *,
    image: str = "registry.example.com/shop/web:1.2.3",
    phase: str = "Running",
    node: str = "node-1",
    draw: random.Random | None = None,
    **labels: str,
) -> Manifest:
    """A pod of about three kilobytes; equal arguments give equal pods, unless `draw` draws what differs."""
    draw = draw or random.Random(name)
    time = f"2026-11-{draw.randint(1, 28):02d}T{draw.randint(0, 23):02d}:{draw.randint(0, 59):02d}:07Z"
    token = f"kube-api-access-{_hex(draw, 5)}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name.rpartition("-")[0], "uid": _uid(draw)}
    sources: list[dict[str, Any]] = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    container = {
        "name": "web",
        "image": image,
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{number}", "value": _hex(draw, 12)} for number in range(4)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [
            {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": _uid(draw),
            "resourceVersion": str(draw.randint(10**6, 10**9)),
            "creationTimestamp": time,
            "labels": dict(labels),
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "volumes": [{"name": token, "projected": {"sources": sources, "defaultMode": 420}}],
            "containers": [container],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": node,
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": f"node.kubernetes.io/{why}", **_TOLERATION} for why in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": phase,
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": time} for kind in _CONDITIONS],
            "hostIP": f"10.{draw.randint(0, 255)}.{draw.randint(0, 255)}.{draw.randint(0, 255)}",
            "podIP": f"10.1.{draw.randint(0, 255)}.{draw.randint(0, 255)}",
            "startTime": time,
            "containerStatuses": [
                {
                    "name": "web",
                    "state": {"running": {"startedAt": time}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": image,
                    "imageID": f"{image}@sha256:{_hex(random.Random(image), 64)}",
                    "containerID": f"containerd://{_hex(draw, 64)}",
                    "started": True,
                }
            ],
            "qosClass": "Burstable",
        },
    }

"""Pods of a whole fleet as JSON, cheaply: workloads differ as real ones do, pods of one in what differs between pods.

A workload has one to three containers, and of settings, volumes, probes, affinity and annotations what it needs; in all
members that it runs in it is the same, as what is propagated is. One in eight is a member's own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from tests.support.member_objects import pod

WORKLOADS: Final = 400
_WORDS: Final = (
    *("cart", "ledger", "search", "media", "auth", "mail", "stock", "price", "route", "queue", "cache", "event"),
    *("report", "audit", "image", "token", "session", "profile", "invoice", "shipment", "catalog", "review"),
)
_ZONES: Final = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
_MARKS: Final = ("name", "uid", "version", "time", "later", "token", "node", "host", "address", "id0", "id1", "id2")


class FleetPod(msgspec.Struct, gc=False):
    """A pod as its member has it, and what it is found by."""

    text: bytes
    workload: Workload
    name: str
    phase: str
    node: str

    @property
    def key(self) -> str:
        """As the index names it."""
        return f"{self.workload.namespace}/{self.name}"


class Workload(msgspec.Struct, frozen=True):
    """What pods of one workload share; `pods` are texts by phase, with a place for what differs."""

    app: str
    namespace: str
    images: tuple[str, ...]
    prefix: str
    texts: dict[str, bytes]


def app_of(number: int, cluster: str) -> str:
    """The name of a workload in a member."""
    return f"own-{number}-of-{cluster}" if number % 8 == 3 else f"{_WORDS[number % len(_WORDS)]}-{number}"


def fleet_pods(cluster: str, count: int, draw: random.Random) -> Iterator[FleetPod]:
    """The pods of one member, as it lists them but for the order."""
    digits = "%032x"
    for place in range(count):
        found = workload(app_of(place % WORKLOADS, cluster), place % WORKLOADS)
        chance = draw.random()
        phase = "Failed" if chance < 0.001 else "Pending" if chance < 0.011 else "Running"
        a, b, c = digits % draw.getrandbits(128), digits % draw.getrandbits(128), digits % draw.getrandbits(128)
        day, second = 1 + int(a[:4], 16) % 28, int(a[4:8], 16) % 60
        name = f"{found.prefix}-{a[:5]}{place}"
        node = f"ip-10-{int(cluster[-2:])}-{int(c[7], 16)}-{int(c[8], 16)}.compute.internal"
        text = found.texts[phase] % {
            b"name": name.encode(),
            b"uid": f"{b[:8]}-{b[8:12]}-4{b[13:16]}-a{b[17:20]}-{b[20:]}".encode(),
            b"version": b"%d" % (10**6 + int(c[:7], 16)),
            b"time": b"2026-11-%02dT%02d:%02d:%02dZ" % (day, int(a[8], 16), int(a[9:12], 16) % 60, second),
            b"later": b"2026-11-%02dT%02d:%02d:%02dZ" % (day, 16 + int(a[8], 16) % 8, int(a[12:15], 16) % 60, second),
            b"token": a[15:20].encode(),
            b"node": node.encode(),
            b"host": b"10.%d.%d.%d" % (int(cluster[-2:]), int(c[7], 16), int(c[8], 16)),
            b"address": b"10.%d.%d.%d" % (128 + int(c[10:12], 16) // 2, int(c[12:14], 16), int(c[14:16], 16)),
            b"id0": (a + b).encode(),
            b"id1": (b + c).encode(),
            b"id2": (c + a).encode(),
        }
        yield FleetPod(text, found, name, phase, node)


@lru_cache(maxsize=2 * WORKLOADS)
def workload(app: str, number: int) -> Workload:
    """A workload by its name, always the same."""
    draw = random.Random(app)
    image = f"registry.example.com/team-{number % 20}/{app}:1.{draw.randrange(40)}.{draw.randrange(9)}"
    namespace, hashed = f"team-{number % 20}", f"{draw.getrandbits(40):010x}"
    spec = _containers(app, image, draw)
    texts = {phase: _text(app, namespace, image, hashed, phase, spec) for phase in ("Running", "Pending", "Failed")}
    images = tuple(dict.fromkeys(each["image"] for each in spec["containers"]))
    return Workload(app, namespace, images, f"{app}-{hashed}", texts)


def _containers(app: str, image: str, draw: random.Random) -> dict[str, Any]:
    """The part of a pod's spec in which workloads differ."""
    made: list[Manifest] = []
    for place in range(draw.choice((1, 1, 2, 2, 3))):
        words = draw.sample(_WORDS, draw.randrange(2, 9))
        env: list[Manifest] = [
            {"name": f"{word.upper()}_URL", "value": f"http://{word}.{app}.svc:{draw.randrange(9999)}"}
            for word in words
        ]
        env.append({"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}})
        resources = {"cpu": f"{draw.randrange(1, 40) * 50}m", "memory": f"{draw.randrange(1, 32) * 64}Mi"}
        each: Manifest = {
            "name": "main" if not place else draw.choice(("proxy", "metrics", "logs")) + str(place),
            "image": image if not place else f"registry.example.com/sidecars/side-{place}:2.{draw.randrange(4)}",
            "args": [f"--{word}={draw.randrange(100)}" for word in draw.sample(_WORDS, draw.randrange(4))],
            "env": env,
            "resources": {"requests": resources, "limits": {"memory": resources["memory"]}},
            "volumeMounts": [{"name": "config", "mountPath": f"/etc/{app}", "readOnly": True}],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": draw.choice(("IfNotPresent", "Always")),
        }
        if draw.random() < 0.7:
            check = {"httpGet": {"path": draw.choice(("/healthz", "/ready")), "port": 8080, "scheme": "HTTP"}}
            each["readinessProbe"] = {**check, "periodSeconds": draw.randrange(3, 30), "failureThreshold": 3}
        made.append(each)
    found: dict[str, Any] = {"containers": made}
    if draw.random() < 0.5:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
        weighted = [{"weight": 100, "podAffinityTerm": term}]
        found["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    if draw.random() < 0.3:
        found["nodeSelector"] = {"topology.kubernetes.io/zone": draw.choice(_ZONES)}
    return found


def _text(app: str, namespace: str, image: str, hashed: str, phase: str, spec: dict[str, Any]) -> bytes:
    """A pod with marks where pods of the workload differ."""
    draw = random.Random(f"{app}/{phase}")
    labels = {"app": app, "pod-template-hash": hashed, "app.kubernetes.io/version": image.rpartition(":")[2]}
    found = pod("@name@", namespace, image=image, phase=phase, node="@node@", draw=draw, **labels)
    metadata, status = found["metadata"], found["status"]
    metadata |= {"uid": "@uid@", "resourceVersion": "@version@", "creationTimestamp": "@time@"}
    metadata["generateName"] = f"{app}-{hashed}-"
    metadata["ownerReferences"][0] |= {"name": f"{app}-{hashed}"}
    if draw.random() < 0.6:
        metadata["annotations"][f"{app.partition('-')[0]}.example.com/checksum"] = f"{draw.getrandbits(256):064x}"
    found["spec"] |= {**spec, "serviceAccountName": app}
    found["spec"]["volumes"][0]["name"] = "kube-api-access-@token@"
    found["spec"]["volumes"].append({"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}})
    for each in found["spec"]["containers"]:
        mount = {"name": "kube-api-access-@token@", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io"}
        each["volumeMounts"] = [*each["volumeMounts"], mount]
    ready = phase == "Running"
    for condition in status["conditions"]:
        condition |= {"lastTransitionTime": "@later@"}
        if not ready and condition["type"] != "PodScheduled":
            condition |= {"status": "False", "reason": "ContainersNotReady", "message": f"containers of {app} are not"}
    status |= {"hostIP": "@host@", "podIP": "@address@", "podIPs": [{"ip": "@address@"}], "startTime": "@time@"}
    states = {
        "Running": {"running": {"startedAt": "@later@"}},
        "Pending": {"waiting": {"reason": "ImagePullBackOff", "message": f"Back-off pulling image {image}"}},
        "Failed": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "@later@"}},
    }
    status["containerStatuses"] = [
        {
            **status["containerStatuses"][0],
            "name": each["name"],
            "image": each["image"],
            "imageID": f"{each['image']}@sha256:{random.Random(each['image']).getrandbits(256):064x}",
            "state": states[phase],
            "ready": ready,
            "started": ready,
            "containerID": f"containerd://@id{place}@",
        }
        for place, each in enumerate(found["spec"]["containers"])
    ]
    text = msgspec.json.encode(found).replace(b"%", b"%%")
    for mark in _MARKS:
        text = text.replace(b"@%s@" % mark.encode(), b"%%(%s)s" % mark.encode())
    return text

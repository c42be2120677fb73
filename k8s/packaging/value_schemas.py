"""Schemas of the values of both charts: what is misspelt is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from k8s.agent_signer import NAME as SIGNING
from k8s.shared import WITH_API, Manifest
from schemas.topology import SERVICES
from services._kit.base.settings import FILE, PREFIX
from services._rules.kubernetes.rbac.service_roles import dns
from services.cli.installation.environment import settings_of

TEXT: Final[Manifest] = {"type": "string"}
FLAG: Final[Manifest] = {"type": "boolean"}
TEXTS: Final[Manifest] = {"type": "array", "items": TEXT}
ANY: Final[Manifest] = {"type": "object"}
LABELS: Final[Manifest] = {"type": "object", "additionalProperties": TEXT}
COUNT: Final[Manifest] = {"type": "integer", "minimum": 0}
# Numbers and truths in a values file are texts in an environment.
VARIABLES: Final[Manifest] = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
CIDRS: Final[Manifest] = {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"}}
LEVEL: Final[Manifest] = {"enum": ["", "debug", "info", "warning", "error"]}
DIGEST: Final[Manifest] = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
OWN_IMAGE: Final[dict[str, Manifest]] = {"repository": TEXT, "tag": TEXT, "digest": DIGEST}


def fields(properties: dict[str, Manifest], *required: str) -> Manifest:
    """An object with these fields and no other."""
    found: Manifest = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**found, "required": list(required)} if required else found


IMAGE: Final = fields(
    {**OWN_IMAGE, "pullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]}, "pullSecrets": TEXTS}
)
PLACE: Final[dict[str, Manifest]] = {
    "nodeSelector": LABELS,
    "tolerations": {"type": "array", "items": ANY},
    "affinity": ANY,
    "priorityClassName": TEXT,
}
WORKLOAD: Final[dict[str, Manifest]] = {
    **PLACE,
    "resources": ANY,
    "podAnnotations": LABELS,
    "podLabels": LABELS,
    "env": VARIABLES,
}
PORT: Final[Manifest] = {"type": "integer", "minimum": 1, "maximum": 65535}
SERVICE: Final = fields(
    {"type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}, "nodePort": PORT, "annotations": LABELS}
)
STORAGE: Final = fields({"className": TEXT, "size": TEXT})


def settings(services: Iterable[str]) -> list[str]:
    """The variables that some of these services read, sorted."""
    return sorted({FILE}.union(*map(settings_of, services)))


def _known(services: Iterable[str]) -> Manifest:
    """Variables of which those of the product have to be settings of some of these services."""
    names = "|".join(name.removeprefix(PREFIX) for name in settings(services))
    ours: list[Manifest] = [{"not": {"pattern": f"^{PREFIX}"}}, {"pattern": f"^{PREFIX}({names})$"}]
    return {**VARIABLES, "propertyNames": {"anyOf": ours}}


def _workloads() -> Manifest:
    others = {**WORKLOAD, "image": fields(OWN_IMAGE)}
    own = {**others, "enabled": FLAG, "replicas": COUNT, "logLevel": LEVEL}
    found = {
        dns(name): fields({**own, "env": _known([name]), **({"service": SERVICE} if name in WITH_API else {})})
        for name in SERVICES
    }
    found["certificate-renewal"] = fields(others)
    # Two would answer each request twice.
    found[SIGNING] = fields({**others, "enabled": FLAG, "logLevel": LEVEL})
    # The log has as many servers as its configuration names, and etcd one.
    found["nats"] = fields({**others, "storage": STORAGE})
    found["etcd"] = fields({**others, "storage": STORAGE, "extraArgs": TEXTS})
    found["kube-apiserver"] = fields({**others, "replicas": COUNT, "service": SERVICE, "extraArgs": TEXTS})
    return fields(dict(sorted(found.items())))


def schema() -> Manifest:
    """Of the chart that installs Fleetlog."""
    issuer = fields({"name": TEXT, "kind": TEXT, "group": TEXT})
    manager = fields({"enabled": FLAG, "issuerRef": issuer, "duration": TEXT, "renewBefore": TEXT})
    ports: Manifest = {"type": "array", "items": PORT}
    control: dict[str, Manifest] = {"kind": {"enum": ["included", "external"]}, "cidrs": CIDRS, "ports": ports}
    policies = {
        "enabled": FLAG,
        "members": fields({"cidrs": CIDRS}),
        "extraEgress": {"type": "array", "items": ANY},
    }
    monitoring = {"podMonitor": FLAG, "rules": FLAG, "dashboards": FLAG, "labels": LABELS, "dashboardLabels": LABELS}
    schedule: Manifest = {"type": "string", "pattern": r"^(@[a-z]+|\S+( \S+){4})$"}
    # Bytes as the log's server writes them.
    size: Manifest = {"type": "string", "pattern": "^([0-9]+[MGT]i?B)?$"}
    return _root(
        {
            "image": IMAGE,
            "pods": fields({**PLACE, "annotations": LABELS, "labels": LABELS}),
            "logLevel": LEVEL,
            "env": _known(SERVICES),
            "workloads": _workloads(),
            "controlPlane": fields(control),
            "log": fields(
                {
                    "maxFileStore": size,
                    "from": CIDRS,
                    "reloader": fields({"enabled": FLAG}),
                    "url": {"type": "string", "pattern": "^((tls|nats|wss?)://\\S+)?$"},
                    "service": SERVICE,
                }
            ),
            "networkPolicies": fields(policies),
            "monitoring": fields(monitoring),
            "certificates": fields(
                {"certManager": manager, "renewal": fields({"enabled": FLAG, "schedule": schedule})}
            ),
            "rollOnSecrets": FLAG,
        }
    )


def agent_schema() -> Manifest:
    """Of the chart that a pull member installs."""
    return _root(
        {
            "cluster": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?$"},
            "url": {"type": "string", "minLength": 1},
            "identity": TEXT,
            "ca": TEXT,
            "existingSecret": TEXT,
            "signed": FLAG,
            "requests": TEXT,
            "replicas": COUNT,
            "image": IMAGE,
            "logLevel": LEVEL,
            **WORKLOAD,
            "env": _known(["agent"]),
        },
        "cluster",
        "url",
    )


def _root(properties: dict[str, Manifest], *required: str) -> Manifest:
    # Helm hands values of parent charts down under this name.
    shared: Manifest = {"global": ANY}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **fields({**properties, **shared}, *required)}

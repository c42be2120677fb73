"""Decides what every pod of the product has: no rights, a spread over hosts and zones, an orderly end."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest

USER: Final = 65532
_ZONE: Final = "topology.kubernetes.io/zone"
_HOST: Final = "kubernetes.io/hostname"


def confined_pod(account: str, labels: dict[str, str], *, token: bool = False, seconds: int = 30) -> Manifest:
    """Fields of a pod that has `seconds` to end; `token`: whether it uses the API of the cluster it runs in."""
    return {
        "serviceAccountName": account,
        "automountServiceAccountToken": token,
        # Variables that a cluster makes of Services could be taken for settings, and unknown settings are refused.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
            for key in (_HOST, _ZONE)
        ],
    }


def confined_container() -> Manifest:
    """The security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def rolling() -> Manifest:
    """How instances are replaced: the next one is ready before one of the present goes."""
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}

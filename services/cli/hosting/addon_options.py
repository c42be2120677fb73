"""Options of `karmadactl addons`: those of Karmada's, for the services that are here, too."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

import typer

from services.cli.hosting.init_options import Host

ADDONS: Final = ("karmada-descheduler", "karmada-metrics-adapter", "karmada-scheduler-estimator", "karmada-search")
ADAPTER: Final = ADDONS[1]
"""The one that is no workload of its own: the gateway answers for metrics."""
SEARCH: Final = ADDONS[3]
Status = Literal["enabled", "disabled", "unhealthy", "unknown"]
Names = Annotated[list[str], typer.Argument(metavar="NAME… | all", help=f"{', '.join(ADDONS)}, or all.")]


class Reached(NamedTuple):
    """The control plane, and the member that an estimator is for."""

    kubeconfig: Annotated[
        str,
        typer.Option("--karmada-kubeconfig", help="Kubeconfig of the control plane, for metrics adapter and search."),
    ] = "/etc/karmada/karmada-apiserver.config"
    context: Annotated[str, typer.Option("--karmada-context", help="Context of that kubeconfig.")] = ""
    cluster: Annotated[
        str, typer.Option("--cluster", "-C", help="Member of the estimator: not needed, one estimates for all.")
    ] = ""


def _image(addon: str) -> Any:
    return typer.Option(f"--{addon}-image", help=f"Image of {addon}.")


def _replicas(addon: str) -> Any:
    return typer.Option(f"--{addon}-replicas", help=f"Instances of {addon}.", min=1)


def _priority(addon: str) -> Any:
    return typer.Option(f"--{addon}-priority-class", help=f"Priority class of {addon}.")


class AddonImages(NamedTuple):
    """Images by add-on; an empty one stays as it is."""

    descheduler: Annotated[str, _image(ADDONS[0])] = ""
    metrics_adapter: Annotated[str, _image(ADDONS[1])] = ""
    estimator: Annotated[str, _image(ADDONS[2])] = ""
    search: Annotated[str, _image(ADDONS[3])] = ""


class AddonReplicas(NamedTuple):
    """Instances by add-on: one leads, others take over."""

    descheduler: Annotated[int, _replicas(ADDONS[0])] = 1
    metrics_adapter: Annotated[int, _replicas(ADDONS[1])] = 1
    estimator: Annotated[int, _replicas(ADDONS[2])] = 1
    search: Annotated[int, _replicas(ADDONS[3])] = 1


class AddonPriorities(NamedTuple):
    """Priority classes by add-on."""

    descheduler: Annotated[str, _priority(ADDONS[0])] = "system-node-critical"
    metrics_adapter: Annotated[str, _priority(ADDONS[1])] = "system-node-critical"
    estimator: Annotated[str, _priority(ADDONS[2])] = "system-node-critical"
    search: Annotated[str, _priority(ADDONS[3])] = "system-node-critical"


class EnableOptions(NamedTuple):
    """How add-ons are enabled."""

    host: Host = Host()
    reached: Reached = Reached()
    pod_timeout: Annotated[int, typer.Option("--pod-timeout", help="Seconds that pods have to get ready.")] = 120
    api_timeout: Annotated[
        int, typer.Option("--apiservice-timeout", help="Seconds for an APIService to answer.", min=0)
    ] = 30
    member: Annotated[
        str, typer.Option("--member-kubeconfig", help="Kubeconfig of the estimator's member: not needed.")
    ] = ""
    member_context: Annotated[str, typer.Option("--member-context", help="Its context: not needed.")] = ""
    domain: Annotated[
        str, typer.Option("--host-cluster-domain", help="Last part of the names of Services: not needed.")
    ] = "cluster.local"
    registry: Annotated[str, typer.Option("--private-image-registry", help="Registry of the images.")] = ""
    images: AddonImages = AddonImages()
    replicas: AddonReplicas = AddonReplicas()
    priorities: AddonPriorities = AddonPriorities()


class DisableOptions(NamedTuple):
    """How add-ons are disabled."""

    host: Host = Host()
    reached: Reached = Reached()
    force: Annotated[bool, typer.Option("--force", "-f", help="Do not ask before.")] = False

"""Options of commands that let agents in at a log that runs in a cluster."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import typer

NAMESPACE: Final = "fleetlog-system"
"""That of the manifests in k8s/; its own module would load too much for an option."""


class HostOptions(NamedTuple):
    """An installation in a cluster; `certs` is empty for any other."""

    certs: Annotated[
        str,
        typer.Option("--certs", help="For an installation in a cluster: directory of `fleetlog certs`, or init's pki."),
    ] = ""
    kubeconfig: Annotated[
        str, typer.Option("--host-kubeconfig", help="Kubeconfig of that cluster (or KUBECONFIG).")
    ] = ""
    context: Annotated[str, typer.Option("--host-context", help="Context of that kubeconfig to use.")] = ""
    namespace: Annotated[str, typer.Option("--host-namespace", help="Namespace of the installation there.")] = NAMESPACE
    through: Annotated[
        str,
        typer.Option("--through", help="URL at which this command reaches the log, if not that of --nats."),
    ] = ""

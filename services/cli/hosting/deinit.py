"""The command `karmadactl deinit`: removes from a host cluster what `init` put there."""

from __future__ import annotations

import sys
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient
from services.cli.common.control_plane import client_of, kubeconfig_path
from services.cli.common.running import Failed, patience
from services.cli.hosting.host_manifests import BOOTSTRAPPING
from services.cli.hosting.init_options import DeinitOptions
from services.cli.hosting.rolling_out import path_of, remove

KINDS: Final = (
    ("Deployment", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("CronJob", "batch/v1"),
    ("Service", "v1"),
    ("Secret", "v1"),
    ("ConfigMap", "v1"),
    ("ServiceAccount", "v1"),
    ("PodDisruptionBudget", "policy/v1"),
    ("NetworkPolicy", "networking.k8s.io/v1"),
    ("RoleBinding", "rbac.authorization.k8s.io/v1"),
    ("Role", "rbac.authorization.k8s.io/v1"),
)
"""What an installation consists of, in the order in which it goes."""
ETCD_LABEL: Final = "karmada.io/etcd"


async def deinit(options: DeinitOptions) -> int:
    """Remove an installation; 1 when the answer to the question is no. Raises Failed and ApiError."""
    namespace = options.host.namespace
    path = kubeconfig_path(options.host.kubeconfig)
    host = await client_of(path, path, options.host.context)
    try:
        async with patience("looking at the host cluster"):
            found = await _installed(host, namespace)
        if not found:
            raise Failed(f"nothing in namespace {namespace} was installed by init; say which one with --namespace")
        if (
            not options.dry_run
            and not options.force
            and not confirmed(
                f"{len(found)} objects of namespace {namespace} will be deleted from {host.server}. Go on? [y/N] "
            )
        ):
            return 1
        again = " (dry run)" if options.dry_run else ""
        for kind, api_version, item in found:
            name = item["metadata"]["name"]
            if not options.dry_run:
                await remove(host, path_of(kind, api_version, namespace, name), "Background")
            print(f"{kind} {namespace}/{name} deleted{again}")
        await _unlabel_nodes(host, again, dry_run=options.dry_run)
        if options.purge:
            if not options.dry_run:
                await remove(host, path_of("Namespace", "v1", "", namespace), "Background")
            print(f"Namespace {namespace} deleted{again}")
    finally:
        await host.close()
    print(_left(namespace, purged=options.purge), end="")
    return 0


def confirmed(question: str) -> bool:
    """Whether a person says yes; raises Failed where there is none to ask."""
    if not sys.stdin.isatty():
        raise Failed("there is no terminal to ask for a confirmation; use --force")
    print(question, end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _installed(host: KubeClient, namespace: str) -> list[tuple[str, str, Manifest]]:
    """Kind, version and object of all that belongs to an installation."""
    found: list[tuple[str, str, Manifest]] = []
    for kind, api_version in KINDS:
        listed = await host.get(f"{path_of(kind, api_version, namespace)}?labelSelector={BOOTSTRAPPING}")
        found += [(kind, api_version, item) for item in listed.get("items") or ()]
    return found


async def _unlabel_nodes(host: KubeClient, again: str, *, dry_run: bool) -> None:
    for node in (await host.get(f"/api/v1/nodes?labelSelector={ETCD_LABEL}")).get("items") or ():
        name = node["metadata"]["name"]
        if not dry_run:
            await host.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ETCD_LABEL: None}}})
        print(f"label {ETCD_LABEL} of Node {name} removed{again}")


def _left(namespace: str, *, purged: bool) -> str:
    claims = (
        ""
        if purged
        else f"  claims of the log and of etcd, with their data: kubectl -n {namespace} delete pvc -l "
        "app.kubernetes.io/part-of=fleetlog\n"
    )
    return (
        "What stays is yours to remove:\n"
        f"{claims}  the files on this machine: /etc/karmada, or what --karmada-data and --karmada-pki said\n"
        "Members keep what runs in them; unjoin them before, if it is to go.\n"
    )

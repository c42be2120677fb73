"""The command `karmadactl init`: installs the control plane on a host cluster, part by part."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.admission.webhook_configurations import Target
from services._rules.identity import bootstrap_tokens
from services._rules.kubernetes.rbac.service_roles import service_objects
from services.cli.common.control_plane import client_of, kubeconfig_path
from services.cli.common.running import Failed, NotReady, complain, patience
from services.cli.common.waiting import answers, opened, wait_until
from services.cli.hosting.host_manifests import AGENTS_DOOR, LOG, SERVER, STORE, host_objects
from services.cli.hosting.host_secrets import host_secrets, make_files
from services.cli.hosting.init_file import with_file
from services.cli.hosting.init_options import InitOptions
from services.cli.hosting.metrics_adapter import unavailable
from services.cli.hosting.rolling_out import all_ready, put
from services.cli.hosting.wanted_installation import Wanted, checked, of_options
from services.cli.installation.certificate_files import GATEWAY_PORT, SEARCH_PORT, WEBHOOK_PORT
from services.cli.installation.gateway_setup import api_services, gateway_service, member_access
from services.cli.installation.install_crds import apply_definitions, apply_webhooks, needed_definitions
from services.cli.members.registration_objects import bootstrap_objects
from services.cli.search import search_setup

_FIRST: Final = (LOG, STORE)
_ROLES: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_ANSWER_SECONDS: Final = 120.0


async def init(options: InitOptions) -> int:
    """Install everything; raises Failed, naming the part that does not get ready."""
    wanted = of_options(options)
    if options.place.config is not None:
        wanted = with_file(wanted, options.place.config)
    wanted = checked(wanted)
    for note in wanted.notes:
        complain(f"note: {note}")
    path = kubeconfig_path(wanted.kubeconfig)
    host = await client_of(path, path, wanted.context)
    try:
        async with patience("looking at the host cluster"):
            await _check_ports(host, wanted)
            addresses = [wanted.address] if wanted.address else await node_addresses(host)
        _say("certificates", f"in {wanted.pki}")
        kubeconfig = make_files(wanted, addresses)
        await _install(host, wanted, kubeconfig)
    finally:
        await host.close()
    print(_next_steps(kubeconfig), end="")
    return 0


def _say(part: str, what: str) -> None:
    print(f"[init] {part}: {what}", flush=True)


async def _check_ports(host: KubeClient, wanted: Wanted) -> None:
    flags = {wanted.port: "--port", wanted.log_port: "--log-port"}
    for service in (await host.get("/api/v1/services")).get("items") or ():
        metadata = service["metadata"]
        ours = metadata["namespace"] == wanted.namespace and metadata["name"] in (SERVER, AGENTS_DOOR)
        for port in () if ours else service["spec"].get("ports") or ():
            if port.get("nodePort") in flags:
                raise Failed(
                    f"port {port['nodePort']} of the nodes belongs to Service {metadata['namespace']}/"
                    f"{metadata['name']}; choose another one with {flags[port['nodePort']]}"
                )


async def node_addresses(host: KubeClient) -> list[str]:
    """Addresses of the control plane's nodes, else of the first three; raises Failed where no node has one."""
    nodes = (await host.get("/api/v1/nodes")).get("items") or []
    leading = [node for node in nodes if any(role in (node["metadata"].get("labels") or {}) for role in _ROLES)]
    found = [address for node in leading or nodes[:3] if (address := _address(node))]
    if not found:
        raise Failed("no node of the host cluster says its address; give it: --karmada-apiserver-advertise-address")
    return found


def _address(node: Manifest) -> str:
    addresses = (node.get("status") or {}).get("addresses") or ()
    internal = [one["address"] for one in addresses if one.get("type") == "InternalIP"]
    return str(internal[0]) if internal else ""


async def _install(host: KubeClient, wanted: Wanted, kubeconfig: Path) -> None:
    namespace = wanted.namespace
    # It may be there: what it has stays.
    await put(host, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    secrets = host_secrets(wanted)
    for each in secrets:
        await put(host, each)
    _say("Secrets", f"{len(secrets)} written")
    objects = host_objects(wanted)
    await _roll_out(host, wanted, [one for one in objects if one["metadata"]["name"] in _FIRST])
    await _roll_out(host, wanted, [one for one in objects if one["metadata"]["name"] == SERVER])
    async with opened(kubeconfig) as control, patience("preparing the control plane"):
        await _reached(control)
        await _prepare(control, wanted)
    rest = [one for one in objects if one["metadata"]["name"] not in (*_FIRST, SERVER)]
    await _roll_out(host, wanted, rest)
    async with opened(kubeconfig) as control, patience("waiting until the control plane reaches gateway and search"):
        try:
            await wait_until("its aggregated APIs", lambda: _unavailable(control), wanted.seconds or math.inf)
        except NotReady as error:
            complain(f"note: the control plane answers for {error}; until then kubectl complains")
        else:
            _say("aggregated APIs", "available")


async def _roll_out(host: KubeClient, wanted: Wanted, objects: Sequence[Manifest]) -> None:
    """Write objects, then wait for the workloads among them, for all at once."""
    for item in objects:
        await put(host, item)
    workloads = [item for item in objects if item["kind"] in ("Deployment", "StatefulSet")]
    for item in workloads:
        if not item["spec"]["replicas"]:
            _say(item["metadata"]["name"], "not enabled (karmadactl addons enable)")
    started = [(item["kind"], item["metadata"]["name"]) for item in workloads if item["spec"]["replicas"]]
    await all_ready(host, wanted.namespace, started, wanted.seconds, became_ready=lambda name: _say(name, "ready"))


async def _reached(control: KubeClient) -> None:
    try:
        await wait_until(f"the control plane at {control.server}", lambda: answers(control), _ANSWER_SECONDS)
    except NotReady as error:
        raise Failed(
            f"{error}; it has to be reached from here: give an address that is with "
            "--karmada-apiserver-advertise-address, and open the port (--port)"
        ) from error


async def _prepare(control: KubeClient, wanted: Wanted) -> None:
    """Write into the control plane what it needs: definitions, rights, where bindings come from, who is asked."""
    _say("definitions", await apply_definitions(control, needed_definitions()))
    roles = list(service_objects())
    for item in roles:
        await put(control, item)
    _say("rights", f"{len(roles)} objects")
    authority = (wanted.pki / "ca.crt").read_bytes()
    bundle = base64.b64encode(authority).decode()
    for item in (
        *gateway_service(f"gateway.{wanted.namespace}.svc"),
        *api_services(bundle, GATEWAY_PORT),
        search_setup.search_service(f"search.{wanted.namespace}.svc"),
        search_setup.api_service(bundle, SEARCH_PORT),
        *member_access(),
        *(() if await _told(control) else bootstrap_objects(control.server, bundle)),
    ):
        await put(control, item)
    url = f"https://webhook.{wanted.namespace}.svc:{WEBHOOK_PORT}"
    _say("webhooks", await apply_webhooks(control, Target(bundle, url=url)))


async def _unavailable(control: KubeClient) -> str:
    """Why requests for an API that others serve are not answered yet; empty when they are."""
    try:
        services = (await control.get(resource_path("apiregistration.k8s.io", "v1", "apiservices"))).get("items") or ()
    except (ApiError, Unreachable) as error:
        return str(error)
    return next(filter(None, map(unavailable, (one for one in services if one["spec"].get("service")))), "")


async def _told(control: KubeClient) -> bool:
    """Whether the control plane tells by itself who it is, as the embedded one does."""
    place, name = bootstrap_tokens.INFO_NAMESPACE, bootstrap_tokens.INFO_NAME
    try:
        await control.get(resource_path("", "v1", "configmaps", place, name))
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def _next_steps(kubeconfig: Path) -> str:
    file = shlex.quote(str(kubeconfig))
    return f"""
The control plane is installed. Its kubeconfig is {kubeconfig}.

Members that the control plane reaches (push):
  karmadactl --kubeconfig {file} join NAME --cluster-kubeconfig MEMBER-KUBECONFIG
Members that register themselves (pull); this prints what to type where their kubeconfig is:
  karmadactl --kubeconfig {file} token create --print-register-command
What there is:
  karmadactl --kubeconfig {file} get clusters
"""

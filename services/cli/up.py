"""Starts a whole installation on one machine and keeps it running: log, front door, members, services."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from services._kit.kube import KubeClient
from services.cli import gateway_setup, groups, identities, scraping, secret_keys, steps, surroundings
from services.cli.control import read_kubeconfig
from services.cli.crds import apply_definitions, needed_definitions
from services.cli.layout import CONTROL, HUB_USER, Installation, Layout, agent_process
from services.cli.lock import Lock
from services.cli.log_watch import LogWatch
from services.cli.preparing import MEMBERS, Options, Refused, check, prepare
from services.cli.processes import Rank, Supervisor, nats_server_binary, preload
from services.cli.running import Failed

SERVICES: Final = (
    "cluster_monitor",
    "detector",
    "estimator",
    "scheduler",
    "failover",
    "override_renderer",
    "executor",
    "registrar",
    "status_aggregator",
    "gateway",
    "janitor",
)
DESCHEDULER: Final = "descheduler"
_WITH_CONTROL: Final = frozenset({"cluster_monitor", "detector", "estimator", "executor", "status_aggregator"})


def services_of(installation: Installation) -> tuple[str, ...]:
    """The services that an installation runs: all, and those that were asked for."""
    return (*SERVICES, DESCHEDULER) if installation.descheduler else SERVICES


class Installer:
    """One running installation."""

    def __init__(self, layout: Layout, installation: Installation, *, known: bool) -> None:
        self.layout = layout
        self.installation = installation
        self._known = known
        self._inherited = surroundings.take(os.environ)
        self._supervisor = Supervisor(layout)
        self._watch: LogWatch | None = None
        members = (member.name for member in installation.members)
        agents = (agent_process(member.name) for member in installation.pull_members)
        self._names = services_of(installation)
        for name in ("nats", "nats_http", CONTROL, *members, *self._names, "gateway_api", *agents):
            installation.port(name)
        layout.save(installation)
        scraping.write(layout, installation, self._names)

    @property
    def embedded(self) -> bool:
        """Whether the control plane is our own API server."""
        return not self.installation.control_kubeconfig

    def run(self) -> int:
        """Start everything, say `ready`, and keep it running until asked to stop; the exit code."""
        supervisor = self._supervisor
        with self._lock():
            supervisor.listen()
            began = time.monotonic()
            try:
                code = self._start()
                if code == 0:
                    self._summary(time.monotonic() - began)
                    while not supervisor.asked_to_stop:
                        supervisor.wait(self._watch.seconds if self._watch is not None else None)
                        if self._watch is not None:
                            self._watch.look()
                        for name in supervisor.tick():
                            if not supervisor.asked_to_stop:
                                sys.stderr.write(
                                    f"{name} died and is started again; its log: {self.layout.log(name)}\n"
                                )
            finally:
                sys.stderr.write("stopping …\n")
                supervisor.stop()
            return 0 if supervisor.asked_to_stop else code

    def _lock(self) -> Lock:
        return Lock(self.layout.directory / "run" / "up.lock")

    def _start(self) -> int:
        sys.stderr.write(f"starting in {self.layout.directory}\n")
        preload()
        if not self.installation.nats_url:
            self._log_server()
        if code := self._step("log", lambda: steps.apply_streams(self.installation)):
            return code
        self._front_doors()
        if self._known:
            self._services()
            self._agents()
        ours = [member.name for member in self.installation.members if member.simulated]
        kubeconfigs = [self.layout.kubeconfig(name) for name in (CONTROL, *ours)]
        if code := self._step("API servers", lambda: steps.front_doors(kubeconfigs)):
            return code
        gateway_setup.environment(self.layout, self.installation)
        if code := self._step("definitions", self._apply_definitions):
            return code
        if not self._known:
            self._services()
        agents = {member.name: self.layout.agent_kubeconfig(member.name) for member in self.installation.pull_members}
        members = {member.name: self.layout.kubeconfig(member.name) for member in self.installation.members}
        control = self.layout.kubeconfig(CONTROL)
        ports = {name: self.installation.port(name) for name in self._names}
        if code := self._step("services", lambda: steps.services_ready(ports)):
            return code
        if self.embedded and (code := self._step("gateway", lambda: gateway_setup.available(control))):
            return code
        if agents:
            if code := self._step("registration", lambda: steps.register_members(control, members, agents)):
                return code
            if not self._known:
                # Not earlier: an agent is turned away until its cluster is a member.
                self._agents()
        return self._step("members", lambda: steps.join_members(control, members, agents))

    def _step(self, name: str, work: object) -> int:
        return self._supervisor.run_step(lambda: steps.run_step(name, work))  # type: ignore[arg-type]  # a coroutine function

    def _log_server(self) -> None:
        layout = self.layout
        self._supervisor.add_command("nats", Rank.LOG, [nats_server_binary(), "-c", str(self._nats_config())])
        health = f"http://127.0.0.1:{self.installation.port('nats_http')}/healthz"
        self._watch = LogWatch(health, layout.data("nats"), layout.pid("nats"))

    def _nats_config(self) -> Path:
        layout, installation = self.layout, self.installation
        identities.adopt_streams(layout)
        for member in installation.pull_members:
            identities.prepare_agent(layout, installation, member.name)
        layout.save(installation)
        return identities.server_config(layout, installation)

    def _environment(self) -> dict[str, str]:
        # Always: one that the command inherited may be that of another server.
        identity = {"FLEETLOG_NATS_CREDS": self.installation.nats_creds}
        environment = {"FLEETLOG_NATS_URL": self.installation.log_url, **identity}
        if not self.installation.nats_url:
            environment["FLEETLOG_NATS_USER"] = HUB_USER
            environment["FLEETLOG_NATS_PASSWORD_FILE"] = str(self.layout.hub_password)
        return environment

    def _front_doors(self) -> None:
        installation, layout = self.installation, self.layout
        if self.embedded:
            environment = {
                **surroundings.beginning_with("FLEETLOG_APISERVER_", self._inherited, (*SERVICES, DESCHEDULER)),
                "FLEETLOG_NATS_URL": installation.log_access,
                "FLEETLOG_NATS_CREDS": installation.nats_creds,
                "FLEETLOG_APISERVER_REPLICAS": str(installation.log_replicas),
                "FLEETLOG_APISERVER_DATA_DIR": str(layout.data(CONTROL)),
                "FLEETLOG_APISERVER_PORT": str(installation.port(CONTROL)),
                "FLEETLOG_APISERVER_ADMIN_TOKEN": installation.token,
                "FLEETLOG_APISERVER_KUBECONFIG": str(layout.kubeconfig(CONTROL)),
                "FLEETLOG_APISERVER_AUDIT_LOG": str(layout.audit(CONTROL)),
                **secret_keys.environment(layout, secret_keys.APISERVER),
            }
            self._supervisor.add_service(CONTROL, Rank.API, "services.apiserver.__main__", environment)
        else:
            _copy_private(Path(installation.control_kubeconfig), layout.kubeconfig(CONTROL))
        for member in installation.members:
            if not member.simulated:
                _copy_private(Path(member.kubeconfig), layout.kubeconfig(member.name))
                continue
            environment = {
                **surroundings.beginning_with("FLEETLOG_MEMBER_", self._inherited, (*SERVICES, DESCHEDULER)),
                "FLEETLOG_MEMBER_NAME": member.name,
                "FLEETLOG_MEMBER_NATS_URL": installation.log_access,
                "FLEETLOG_MEMBER_NATS_CREDS": installation.nats_creds,
                "FLEETLOG_MEMBER_REPLICAS": str(installation.log_replicas),
                "FLEETLOG_MEMBER_PORT": str(installation.port(member.name)),
                "FLEETLOG_MEMBER_TOKEN": installation.token,
                "FLEETLOG_MEMBER_DATA_DIR": str(layout.data(member.name)),
                "FLEETLOG_MEMBER_KUBECONFIG": str(layout.kubeconfig(member.name)),
                "FLEETLOG_MEMBER_NODES": str(member.nodes),
                "FLEETLOG_MEMBER_AUDIT_LOG": str(layout.audit(member.name)),
            }
            self._supervisor.add_service(member.name, Rank.API, "services.member_sim.__main__", environment)

    def _services(self) -> None:
        together: dict[str, dict[str, dict[str, str]]] = {group: {} for group in groups.GROUPS}
        for name in self._names:
            environment = {**surroundings.known_to(name, self._inherited), **self._environment()}
            environment["FLEETLOG_INSTANCE"] = f"{name}-0"
            environment["FLEETLOG_HTTP_PORT"] = str(self.installation.port(name))
            if name in _WITH_CONTROL:
                environment["FLEETLOG_CONTROL_KUBECONFIG"] = str(self.layout.kubeconfig(CONTROL))
            if name == "gateway":
                environment.update(gateway_setup.environment(self.layout, self.installation))
            environment.update(secret_keys.environment(self.layout, name))
            if name in groups.PROCESS_OF:
                together[groups.PROCESS_OF[name]][name] = environment
            else:
                self._supervisor.add_service(name, Rank.SERVICE, f"services.{name}.__main__", environment)
        for group, services in together.items():
            self._supervisor.add_service(group, Rank.SERVICE, "services.cli.groups", {}, services=services)

    def _agents(self) -> None:
        """Agents of the pull members; one without identity waits until it has one."""
        for member in self.installation.pull_members:
            name, seed = agent_process(member.name), self.layout.agent_seed(member.name)
            kubeconfig = self.layout.agent_kubeconfig(member.name)
            environment = {
                **surroundings.known_to("agent", self._inherited),
                "FLEETLOG_NATS_URL": self.installation.log_url,
                "FLEETLOG_NATS_CREDS": "",
                "FLEETLOG_NATS_NKEY_FILE": str(seed),
                "FLEETLOG_AGENT_CLUSTER": member.name,
                "FLEETLOG_AGENT_KUBECONFIG": str(kubeconfig),
                "FLEETLOG_AGENT_DATA_DIR": str(self.layout.agent(member.name) / "known"),
                "FLEETLOG_INSTANCE": f"{name}-0",
                "FLEETLOG_HTTP_PORT": str(self.installation.port(name)),
            }
            needs = (seed, kubeconfig)
            self._supervisor.add_service(name, Rank.SERVICE, "services.agent.__main__", environment, needs=needs)

    async def _apply_definitions(self) -> str:
        client = await KubeClient.from_kubeconfig(self.layout.kubeconfig(CONTROL))
        try:
            done = await apply_definitions(client, needed_definitions())
        finally:
            await client.close()
        if self.embedded:
            ca = (self.layout.data("gateway") / "ca.crt").read_bytes()
            control = self.layout.kubeconfig(CONTROL)
            await gateway_setup.register(control, ca, self.installation.port("gateway_api"))
        return done

    def _summary(self, seconds: float) -> None:
        layout = self.layout
        first = self.installation.members[0].name if self.installation.members else ""
        lines = [
            "",
            f"Fleetlog runs ({seconds:.1f} s). Control plane and {len(self.installation.members)} member clusters.",
            "Try, in another terminal:",
            f"  export KUBECONFIG={layout.kubeconfig(CONTROL)}",
            "  kubectl get clusters",
            "  kubectl apply -f your-deployment.yaml -f your-propagationpolicy.yaml",
            *([f"  kubectl --kubeconfig {layout.kubeconfig(first)} get pods"] if first else []),
            f"  fleetlog events --follow --dir {layout.directory}",
            "Ctrl-C stops everything; the data stays and the next start continues with it.",
            "",
        ]
        sys.stderr.write("\n".join(lines))
        sys.stderr.flush()
        sys.stdout.write("ready\n")
        sys.stdout.flush()


def _copy_private(source: Path, target: Path) -> None:
    """Copy a kubeconfig; the files it names are found from the copy as well."""
    if not source.is_file():
        raise Refused(f"kubeconfig {source} does not exist")
    import yaml

    try:
        text = yaml.safe_dump(read_kubeconfig(source), sort_keys=False)
    except Failed as error:
        raise Refused(str(error)) from None
    target.touch(mode=0o600)
    target.chmod(0o600)
    target.write_text(text, encoding="utf-8")


def up(options: Options) -> int:
    """Run an installation until it is asked to stop; the exit code. Raises Refused."""
    check(options)
    layout, installation, known = prepare(options)
    simulated = sum(member.simulated for member in installation.members)
    if known and options.members not in (MEMBERS, simulated):
        sys.stderr.write(f"--members {options.members} has no effect: this installation keeps its {simulated}\n")
    return Installer(layout, installation, known=known).run()

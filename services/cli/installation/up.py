"""Starts a whole installation on one machine and keeps it running: log, front door, members, services."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from schemas.topology import OPTIONAL, WITHOUT_LOG
from schemas.topology import SERVICES as DEFINED
from services._kit.base.private_files import private_text
from services._rules.identity.service_rights import inbox_prefix
from services._rules.kubernetes.rbac.service_roles import SIGNER_OF_AGENTS
from services.cli.attachments.attachment_checks import Unusable, examine
from services.cli.attachments.member_attachments import join_members, keep_trying, leave, left, register_members
from services.cli.common.control_plane import read_kubeconfig
from services.cli.common.layout import CONTROL, Installation, Layout, agent_process, service_creds
from services.cli.common.running import INTERRUPTED, Failed, say
from services.cli.common.waiting import opened
from services.cli.installation import environment as surroundings
from services.cli.installation import gateway_setup, webhook_setup
from services.cli.installation import process_groups as groups
from services.cli.installation import prometheus_config as scraping
from services.cli.installation import startup as steps
from services.cli.installation.certificate_files import AUTHORIZATION, WITH_CONTROL, write_identities
from services.cli.installation.disk_watch import LogWatch
from services.cli.installation.install_crds import apply_definitions, needed_definitions
from services.cli.installation.installation_plan import MEMBERS, check, prepare
from services.cli.installation.processes import Supervisor
from services.cli.installation.up_options import InstallationOptions
from services.cli.log.disk.files import guarded, refused_file
from services.cli.members.signing import answer_agents
from services.cli.nats import server_identities as identities
from services.cli.search import search_setup
from services.cli.secrets import secret_keys
from services.cli.supervision.child import nats_server_binary
from services.cli.supervision.liveness_probe import Address
from services.cli.supervision.lock import Lock
from services.cli.supervision.preloading import preload
from services.cli.supervision.stop_command import stop_leftovers
from services.cli.supervision.supervised_process import Rank

SERVICES: Final = tuple(name for name in DEFINED if name not in OPTIONAL | WITHOUT_LOG)
DESCHEDULER: Final = "descheduler"
WEBHOOK: Final = "webhook"
ALL_SERVICES: Final = (*SERVICES, DESCHEDULER, WEBHOOK, "agent")


def services_of(installation: Installation) -> tuple[str, ...]:
    """The services that an installation runs: all, and those that were asked for."""
    asked_for = {DESCHEDULER: installation.descheduler, WEBHOOK: bool(installation.webhook)}
    return (*SERVICES, *(name for name, wanted in asked_for.items() if wanted))


class Installer:
    """One running installation."""

    def __init__(self, layout: Layout, installation: Installation, *, known: bool) -> None:
        self.layout = layout
        self.installation = installation
        self._known = known
        self._inherited = surroundings.take(os.environ)
        self._supervisor = Supervisor(layout, surroundings.limits_of(self._inherited))
        self._watch: LogWatch | None = None
        self._troubles: dict[str, str] = {}
        members = (member.name for member in installation.members)
        agents = (agent_process(member.name) for member in installation.pull_members)
        self._names = services_of(installation)
        for name in ("nats", "nats_http", CONTROL, *members, *self._names, "gateway_api", search_setup.PORT, *agents):
            installation.port(name)
        if WEBHOOK in self._names:
            installation.port(webhook_setup.PORT)
        layout.save(installation)
        scraping.write(layout, installation, self._names)

    @property
    def embedded(self) -> bool:
        """Whether the control plane is our own API server."""
        return not self.installation.control_kubeconfig

    @property
    def control(self) -> Path:
        """How the commands of this installation reach the control plane."""
        return self.layout.kubeconfig(CONTROL) if self.embedded else self.layout.control_access

    def run(self) -> int:
        """Start everything, say `ready`, and keep it running until asked to stop; the exit code."""
        supervisor = self._supervisor
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
                    supervisor.tick()
        finally:
            say("stopping …\n")
            supervisor.stop()
        return 0 if supervisor.asked_to_stop else code

    def _start(self) -> int:
        say(f"starting in {self.layout.directory}\n  programs … ")
        began = time.monotonic()
        preload()
        say(f"ok ({time.monotonic() - began:.1f} s)\n")
        if not self.embedded and (code := self._step("control plane", self._check_control)):
            return code
        if not self.installation.nats_url:
            self._log_server()
        refused = refused_file(self.layout.data("nats"))
        if code := self._step("log", lambda: steps.apply_streams(self.installation, refused)):
            return code
        self._front_doors()
        if self._known:
            self._services()
            self._agents()
        ours = [member.name for member in self.installation.members if member.simulated]
        kubeconfigs = [self.layout.kubeconfig(name) for name in ([CONTROL] if self.embedded else []) + ours]
        if kubeconfigs and (code := self._step("API servers", lambda: steps.front_doors(kubeconfigs, self.layout.log))):
            return code
        gateway_setup.environment(self.layout, self.installation)
        search_setup.environment(self.layout, self.installation)
        if code := self._step("definitions", self._apply_definitions):
            return code
        if not self._known:
            self._services()
        agents = {member.name: self.layout.agent_kubeconfig(member.name) for member in self.installation.pull_members}
        members = {name: self.layout.kubeconfig(name) for name in ours}
        control = self.control
        ports = {name: self.installation.port(name) for name in self._names}
        logs = {name: self.layout.log(name) for name in self._names}
        if code := self._step("services", lambda: steps.services_ready(ports, logs)):
            return code
        if self.installation.webhook:
            asks = webhook_setup.register
            if code := self._step("webhook", lambda: asks(control, self.layout, self.installation)):
                return code
        served = gateway_setup.available if self.embedded else gateway_setup.reached
        if code := self._step("gateway", lambda: served(self.layout.kubeconfig(CONTROL))):
            return code
        if agents:
            if code := self._step("registration", lambda: register_members(control, members, agents)):
                return code
            if not self._known:
                # Not earlier: an agent is turned away until its cluster is a member.
                self._agents()
        if code := self._step("members", lambda: self._join(members, agents)):
            return code
        self._keep_trying()
        if not self.installation.nats_url and surroundings.answers_agents(self._inherited):
            own = self.layout.identity(SIGNER_OF_AGENTS) if self.embedded else self.control
            self._supervisor.add_task("joining-agents", lambda: asyncio.run(answer_agents(self.layout, own)))
        return 0

    async def _join(self, members: Mapping[str, Path], agents: Mapping[str, Path]) -> str:
        joined = await join_members(self.control, members, agents, self._attached)
        leave(self.layout.troubles, joined.troubles)
        return str(joined)

    @property
    def _attached(self) -> dict[str, Path]:
        """Kubeconfigs of the members that are not simulated here."""
        return {member.name: Path(member.kubeconfig) for member in self.installation.members if not member.simulated}

    def _keep_trying(self) -> None:
        """Say which members cannot be used, and try them again as long as everything else runs."""
        self._troubles = left(self.layout.troubles)
        for name, trouble in self._troubles.items():
            say(f"    member {name} is not usable: {trouble}\n")
        if not self._troubles:
            return
        say("    the others run; it is tried again until it is usable\n")
        files, troubles = self._attached, self._troubles

        def body() -> int:
            asyncio.run(keep_trying(self.control, files, troubles, lambda text: say(f"{text}\n")))
            return 0

        self._supervisor.add_task("joining", body)

    async def _check_control(self) -> str:
        """Try the control plane before anything is started that needs it; raises Failed."""
        try:
            usable = await examine(Path(self.installation.control_kubeconfig))
        except Unusable as error:
            raise Failed(f"the control plane cannot be used: {error}") from None
        _copy_private(Path(self.installation.control_kubeconfig), self.control)
        return usable.source.server

    def _step(self, name: str, work: object) -> int:
        return self._supervisor.run_step(lambda: steps.run_step(name, work))  # type: ignore[arg-type]  # a coroutine function

    def _log_server(self) -> None:
        layout = self.layout
        port = self.installation.port("nats_http")
        command = guarded(layout.data("nats"), [nats_server_binary(), "-c", str(self._nats_config())])
        # What it says is of an earlier start.
        refused_file(layout.data("nats")).unlink(missing_ok=True)
        # Not its /healthz: that looks at every stream, and waits for a disk that stands still.
        self._supervisor.add_command("nats", Rank.LOG, command, [Address(port, "/")])
        health = f"http://127.0.0.1:{port}/healthz"
        self._watch = LogWatch(health, layout.data("nats"), layout.pid("nats"))

    def _nats_config(self) -> Path:
        layout, installation = self.layout, self.installation
        identities.adopt_streams(layout)
        for member in installation.pull_members:
            identities.prepare_agent(layout, installation, member.name)
        config = identities.server_config(layout, installation)
        layout.save(installation)
        return config

    def environment_of(self, service: str) -> dict[str, str]:
        """The variables of a service: those of this command that it knows, and its place in the installation."""
        environment = surroundings.known_to(service, self._inherited)
        if service not in WITHOUT_LOG:
            environment.update(self._at_the_log(service))
        environment["FLEETLOG_INSTANCE"] = f"{service}-0"
        environment["FLEETLOG_HTTP_PORT"] = str(self.installation.port(service))
        if service in WITH_CONTROL:
            own = self.layout.identity(service) if self.embedded else self.control
            environment["FLEETLOG_CONTROL_KUBECONFIG"] = str(own)
        if service == WEBHOOK:
            environment.update(webhook_setup.environment(self.layout, self.installation))
        if service == "gateway":
            environment.update(gateway_setup.environment(self.layout, self.installation))
            environment.update(search_setup.door(self.layout, self.installation))
        if service == search_setup.NAME:
            environment.update(search_setup.environment(self.layout, self.installation))
        environment.update(secret_keys.environment(self.layout, service))
        return environment

    def _at_the_log(self, service: str) -> dict[str, str]:
        # Always: one that the command inherited may be that of another server.
        identity = {"FLEETLOG_NATS_CREDS": self.installation.nats_creds}
        if (own := service_creds(self.installation.nats_creds, service)) is not None:
            identity = {"FLEETLOG_NATS_CREDS": str(own), "FLEETLOG_NATS_INBOX_PREFIX": inbox_prefix(service)}
        environment = {"FLEETLOG_NATS_URL": self.installation.log_url, **identity}
        if not self.installation.nats_url:
            environment["FLEETLOG_NATS_USER"] = service
            environment["FLEETLOG_NATS_PASSWORD_FILE"] = str(self.layout.service_password(service))
            environment["FLEETLOG_NATS_INBOX_PREFIX"] = inbox_prefix(service)
        return environment

    def _front_doors(self) -> None:
        installation, layout = self.installation, self.layout
        if self.embedded:
            reached = gateway_setup.openings(installation.port("gateway_api"), self._inherited)
            write_identities(layout, installation, (*self._names, SIGNER_OF_AGENTS))
            environment = {
                "FLEETLOG_APISERVER_AUTHORIZATION": AUTHORIZATION,
                "FLEETLOG_APISERVER_SERVICE_ROLES": "1",
                **surroundings.beginning_with(surroundings.APISERVER, self._inherited, (*SERVICES, DESCHEDULER)),
                **surroundings.known_to_api_server(self._inherited),
                "FLEETLOG_NATS_URL": installation.log_access,
                "FLEETLOG_NATS_CREDS": installation.nats_creds,
                "FLEETLOG_APISERVER_REPLICAS": str(installation.log_replicas),
                "FLEETLOG_APISERVER_DATA_DIR": str(layout.data(CONTROL)),
                "FLEETLOG_APISERVER_PORT": str(installation.port(CONTROL)),
                "FLEETLOG_APISERVER_ADMIN_TOKEN": installation.token,
                "FLEETLOG_APISERVER_KUBECONFIG": str(layout.kubeconfig(CONTROL)),
                "FLEETLOG_APISERVER_AUDIT_LOG": str(layout.audit(CONTROL)),
                **gateway_setup.openings(installation.port(search_setup.PORT), reached),
                **secret_keys.environment(layout, secret_keys.APISERVER),
            }
            address = Address(installation.port(CONTROL), "/livez", tls=True)
            module = "services.apiserver.__main__"
            self._supervisor.add_service(CONTROL, Rank.API, module, environment, answers=[address])
        for member in installation.members:
            if not member.simulated:
                # One that cannot be read is named when the members are joined.
                with suppress(Failed, OSError):
                    _copy_private(Path(member.kubeconfig), layout.kubeconfig(member.name))
                continue
            environment = {
                **surroundings.beginning_with(surroundings.MEMBER, self._inherited, (*SERVICES, DESCHEDULER)),
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
            address = Address(installation.port(member.name), "/livez", tls=True)
            module = "services.member_sim.__main__"
            self._supervisor.add_service(member.name, Rank.API, module, environment, answers=[address])

    def _services(self) -> None:
        together: dict[str, dict[str, dict[str, str]]] = {group: {} for group in groups.GROUPS}
        for name in self._names:
            environment = self.environment_of(name)
            if name in groups.PROCESS_OF:
                together[groups.PROCESS_OF[name]][name] = environment
            else:
                answers = [Address(self.installation.port(name))]
                module = f"services.{name}.__main__"
                self._supervisor.add_service(name, Rank.SERVICE, module, environment, answers=answers)
        for group, services in together.items():
            answers = [Address(self.installation.port(name)) for name in services]
            module = "services.cli.installation.process_groups"
            self._supervisor.add_service(group, Rank.SERVICE, module, {}, services=services, answers=answers)

    def _agents(self) -> None:
        """Agents of the pull members; one without identity waits until it has one."""
        for member in self.installation.pull_members:
            name, seed = agent_process(member.name), self.layout.agent_seed(member.name)
            kubeconfig = self.layout.agent_kubeconfig(member.name)
            environment = {
                # These members are ours to try things out with.
                "FLEETLOG_AGENT_REQUESTS": "all",
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
            answers = [Address(self.installation.port(name))]
            module = "services.agent.__main__"
            self._supervisor.add_service(name, Rank.SERVICE, module, environment, needs=needs, answers=answers)

    async def _apply_definitions(self) -> str:
        async with opened(self.control) as client:
            done = await apply_definitions(client, needed_definitions())
            if self._known and not self.embedded and not self.installation.webhook:
                await webhook_setup.unregister(client, self.layout)
        if self.embedded:
            ca = (self.layout.data("gateway") / "ca.crt").read_bytes()
            await gateway_setup.register(self.control, ca, self.installation.port("gateway_api"))
            ca = (self.layout.data(search_setup.NAME) / "ca.crt").read_bytes()
            await search_setup.register(self.control, ca, self.installation.port(search_setup.PORT))
        return done

    def _summary(self, seconds: float) -> None:
        layout = self.layout
        first = self.installation.members[0].name if self.installation.members else ""
        lines = [
            "",
            f"Fleetlog runs ({seconds:.1f} s). Control plane and {len(self.installation.members)} member clusters.",
            "Try, in another terminal:",
            f"  export KUBECONFIG={layout.kubeconfig(CONTROL)}",
            "  kubectl get clusters" if self.embedded else "  kubectl get clusters,rb,work -A",
            "  kubectl apply -f your-deployment.yaml -f your-propagationpolicy.yaml",
            *([f"  kubectl --kubeconfig {layout.kubeconfig(first)} get pods"] if first else []),
            f"  fleetlog events --follow --dir {layout.directory}",
            *([f"Not usable, and tried again: {', '.join(self._troubles)}; see above"] if self._troubles else []),
            f"Ctrl-C, or `fleetlog stop --dir {layout.directory}`, stops everything; the data stays",
            "and the next start continues with it.",
            "",
        ]
        say("\n".join(lines))
        sys.stdout.write("ready\n")
        sys.stdout.flush()


def _copy_private(source: Path, target: Path) -> None:
    """Copy a kubeconfig; the files it names are found from the copy as well. Raises Failed, OSError."""
    import yaml

    private_text(target, yaml.safe_dump(read_kubeconfig(source), sort_keys=False))


def up(options: InstallationOptions) -> int:
    """Run an installation until it is asked to stop; the exit code. Raises Failed and AlreadyRunning."""
    surroundings.refuse_unknown(os.environ, ALL_SERVICES)
    if options.nats_url and not options.nats_creds:
        options = options._replace(nats_creds=os.environ.get("FLEETLOG_NATS_CREDS", ""))
    check(options)
    place = Layout(options.directory)
    lock = Lock(place.lock)
    try:
        with lock:
            stop_leftovers(place, lock, lambda text: say(f"{text}\n"))
            layout, installation, known = prepare(options)
            simulated = sum(member.simulated for member in installation.members)
            if known and options.members not in (MEMBERS, simulated):
                say(f"--members {options.members} has no effect: this installation keeps its {simulated}\n")
            return Installer(layout, installation, known=known).run()
    except KeyboardInterrupt:
        return INTERRUPTED

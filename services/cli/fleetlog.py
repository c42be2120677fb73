"""The command `fleetlog`: runs an installation and shows what its log holds."""

from __future__ import annotations

from typing import Final

from services.cli.backup.backup_commands import app as backup_commands
from services.cli.backup.backup_commands import restores as restore_commands
from services.cli.completion.completion_commands import add_completion
from services.cli.containers.container_commands import app as container_commands
from services.cli.foresight.foresight_commands import app as foresight_commands
from services.cli.installation.installation_commands import app as installation_commands
from services.cli.installation.installation_commands import crds as definition_commands
from services.cli.log.log_commands import app as log_commands
from services.cli.objects.validation_commands import app as validation_commands
from services.cli.overview.overview_commands import app as overview_commands
from services.cli.overview.overview_commands import parked as parked_commands
from services.cli.queries.query_commands import app as query_commands
from services.cli.registration.nats_commands import app as nats_commands
from services.cli.search.search_commands import app as search_commands
from services.cli.secrets.secret_commands import app as secret_commands
from services.cli.settings.settings_commands import app as settings_commands
from services.cli.shell.program import Version, add_version, program, start
from services.cli.simulation.simulation_commands import app as simulation_commands
from services.cli.tracing.trace_commands import app as trace_commands

GROUPS: Final = {
    "Installation Commands": ("up", "stop", "demo", "certs", "crds", "containers"),
    "Object Commands": ("history", "explain", "trace", "events", "search", "validate"),
    "Foresight Commands": ("plan", "apply", "undo", "simulate", "replay"),
    "Operation Commands": ("status", "doctor", "parked", "confirm-absence", "sim", "topology"),
    "Log and Security Commands": ("log", "backup", "restore", "secrets", "nats"),
    "Settings Commands": ("settings", "completion"),
}

SUMMARIES: Final = {
    "stop": "Stop the installation of a directory, or what is left of it",
    "demo": "Start an installation, run a Deployment, print its history, stop",
    "containers": "Steps of a start in containers; compose.yaml runs them",
    "certs": "Make the files that compose.yaml and k8s/ expect",
    "history": "Show what happened to one object, with times and causes",
    "trace": "Show how long each step of a change took, or what clients reach",
    "undo": "Restore an earlier version of a policy or template",
    "simulate": "Show what would move if clusters, replicas or a policy changed",
    "replay": "Decide an exported log again and print what differs",
    "status": "Show control plane, log, members, services and parked keys",
    "doctor": "Say what is wrong with an installation, and what to do",
    "sim": "Set and show what simulated members play",
    "backup": "Write the log, its keys and the control plane to one file",
    "topology": "Print the streams of the log with writers and readers",
}

app = program("fleetlog", "Multi-cluster Kubernetes orchestration whose truth is an event log.", GROUPS, SUMMARIES)


@app.callback()
def root(version: Version = False) -> None:
    """Multi-cluster Kubernetes orchestration whose truth is an event log."""


for _commands in (
    installation_commands,
    query_commands,
    trace_commands,
    search_commands,
    foresight_commands,
    overview_commands,
    parked_commands,
    log_commands,
    backup_commands,
    restore_commands,
    secret_commands,
    nats_commands,
    definition_commands,
    container_commands,
    validation_commands,
    settings_commands,
    simulation_commands,
):
    app.add_typer(_commands)


add_version(app, lambda: "fleetlog")
add_completion(app, lambda: "fleetlog")


def main() -> None:
    """Entry point of the command."""
    start(app, "fleetlog")

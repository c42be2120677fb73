"""The commands `fleetlog backup` and `fleetlog restore …` and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.cli.common.command import Commands, Work
from services.cli.common.installation_options import LogOptions, Nats, NewDirectory
from services.cli.common.installation_search import DEFAULT_DIRECTORY
from services.cli.common.karmadactl_options import ControlPlaneOptions

app = Commands(rich_markup_mode=None)
restores = Commands(
    name="restore",
    help="Bring back what was lost: an installation from a backup, a control plane from the log.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PassphraseFile = Annotated[
    Path | None, typer.Option("--passphrase-file", help="File with the passphrase, instead of asking for it.")
]


@app.command(
    "backup",
    epilog="""Examples:

\b
fleetlog backup monday.backup
fleetlog backup monday.backup --passphrase-file /etc/fleetlog/backup.passphrase
fleetlog backup monday.backup --nats nats://nats:4222 --secrets-key-file secrets-keys.json
""",
)
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    passphrase_file: PassphraseFile = None,
    secrets_key_file: Annotated[
        Path | None, typer.Option(help="The master keys of Secrets, instead of the installation's.")
    ] = None,
    *,
    log: LogOptions,
) -> Work:
    """Write the log, the keys of Secrets, the embedded control plane and the installation's files to one file.

    The file is encrypted with a passphrase. Nothing has to be stopped.
    """
    from services.cli.backup.passphrases import passphrase
    from services.cli.backup.take_backup import back_up
    from services.cli.common.layout import Layout

    access = log.access
    secret = passphrase(passphrase_file, new=True)
    layout = Layout(log.directory) if not log.nats else None
    return back_up(access, file, secret, layout, secrets_key_file)


@restores.command(
    "backup",
    epilog="""Examples:

\b
fleetlog restore backup monday.backup --dir restored
fleetlog restore backup monday.backup --nats nats://nats:4222 --secrets-key-file secrets-keys.json
""",
)
def restore_backup(
    file: Annotated[Path, typer.Argument(help="A file that `fleetlog backup` wrote.")],
    passphrase_file: PassphraseFile = None,
    secrets_key_file: Annotated[
        Path | None, typer.Option(help="With --nats: where to write the master keys of Secrets.")
    ] = None,
    directory: NewDirectory = DEFAULT_DIRECTORY,
    nats: Nats = "",
) -> Work:
    """Fill an empty directory, or the empty log at --nats, from a backup.

    Services that are started on it compare it with the control plane before they deliver anything.
    """
    from services.cli.backup.passphrases import passphrase
    from services.cli.backup.restore_backup import restore

    secret = passphrase(passphrase_file, new=False)
    return restore(file, secret, directory, nats, secrets_key_file)


@restores.command(
    "control-plane",
    epilog="""Examples:

\b
fleetlog restore control-plane --to new-control-plane.kubeconfig --dry-run
fleetlog restore control-plane --to new-control-plane.kubeconfig
fleetlog restore control-plane --to cp.kubeconfig --nats nats://nats:4222 --secrets-key-file secrets-keys.json
""",
)
def restore_control_plane(
    to: Annotated[str, typer.Option("--to", help="Kubeconfig of the new control plane.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be written.")] = False,
    secrets_key_file: Annotated[
        Path | None, typer.Option(help="The master keys of Secrets, instead of the installation's.")
    ] = None,
    *,
    log: LogOptions,
) -> Work:
    """Write the policies, propagated objects and Clusters that the log holds into a new control plane.

    Objects that no policy claims are not on the log, and credentials of members neither.
    """
    from services.cli.backup.restore_control_plane import restore
    from services.cli.common.layout import Layout
    from services.cli.secrets.secret_keys import key_file

    own = key_file(Layout(log.directory))
    keys = secrets_key_file or (own if not log.nats and own.is_file() else None)
    return restore(log.access, keys, ControlPlaneOptions(to), dry_run=dry_run)

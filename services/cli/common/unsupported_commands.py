"""Commands of Karmada's `karmadactl` that this one does not have: each says so, and what does the same today."""

from __future__ import annotations

from typing import Final

import typer

_KUBECTL: Final = "`kubectl {verb}` with the control plane's kubeconfig does the same"
_ANYWHERE: Final = "use `kubectl {verb}` with the kubeconfig of the control plane, or of a member"
_MEMBER: Final = "use `kubectl {verb}` with the member's kubeconfig"
_RUNS: Final = "`fleetlog up` runs everything on one machine; docs/deploy.md has containers and clusters"

INSTEAD: Final = {
    **dict.fromkeys(("create", "delete", "edit", "patch", "label", "annotate"), _KUBECTL),
    **dict.fromkeys(("describe", "explain", "api-resources", "api-versions"), _ANYWHERE),
    **dict.fromkeys(("logs", "exec", "attach", "top"), _MEMBER),
    "apply": "use `kubectl apply`, for the objects and for a PropagationPolicy that names their clusters",
    "promote": (
        "apply the member's object to the control plane, and a PropagationPolicy with that cluster and "
        "`conflictResolution: Overwrite`, which takes the running copy over"
    ),
    "init": _RUNS,
    "deinit": "stop `fleetlog up` and remove its directory",
    "addons": "every service is part of the installation; `fleetlog up --help` lists what is optional",
    "completion": "use `karmadactl --install-completion` or `--show-completion`",
    "options": "`karmadactl --help` lists the options that every command takes",
}
"""What to do instead, by command."""


def refuse(ctx: typer.Context) -> None:
    """Say that the command is not there and what to use; ends with 1."""
    from services.cli.common.running import fail

    verb = ctx.info_name or ""
    fail(f"`karmadactl {verb}` is not built yet; {INSTEAD[verb].format(verb=verb)}")


app = typer.Typer(rich_markup_mode=None)
for _verb in INSTEAD:
    # Whatever follows the name is no usage error: there is no usage to keep to.
    app.command(
        _verb,
        hidden=True,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(refuse)

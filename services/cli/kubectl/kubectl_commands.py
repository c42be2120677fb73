"""The commands of karmadactl that kubectl carries out: describe, logs, exec, create and others."""

from __future__ import annotations

from typing import Final

import typer
from typer._click import Context
from typer.core import TyperCommand

from services.cli.common.command import Commands, Work
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.kubectl.verbs import CONTROL, MEMBERS, VERBS, Verb

app = Commands()

EXAMPLES: Final = {
    "describe": ("deployment nginx", "pod -l app=nginx -s members -C member1"),
    "logs": ("nginx-6799fc88d8-sqjj4 -C member1", "deploy/nginx -C member1 -f --tail 20"),
    "exec": ("nginx-6799fc88d8-sqjj4 -s members --cluster member1 -it -- sh",),
    "attach": ("nginx-6799fc88d8-sqjj4 -s members --cluster member1 -i",),
    "explain": ("propagationpolicies.spec.placement", "pods.spec -s members --cluster member1"),
    "api-resources": ("--api-group policy.karmada.io", "-s members --cluster member1"),
    "api-versions": ("", "-s members --cluster member1"),
    "create": ("-f deployment.yaml", "deployment web --image nginx"),
    "delete": ("propagationpolicy nginx-propagation", "-f deployment.yaml"),
    "edit": ("deployment nginx",),
    "patch": ("""deployment nginx -p '{"spec":{"replicas":3}}'""",),
    "label": ("deployment nginx tier=web",),
    "annotate": ("deployment nginx note='by hand'",),
}


class PassedOn(TyperCommand):
    """A command whose words are read by kubectl, but for a few."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Keep every word as it is."""
        ctx.args = list(args)
        return ctx.args


def _pass_on(ctx: typer.Context) -> Work:
    from services.cli.kubectl.passing_on import pass_on

    before = ctx.obj if isinstance(ctx.obj, ControlPlaneOptions) else ControlPlaneOptions()
    return pass_on(ctx.info_name or "", ctx.args, before, ctx.get_help())


def _help_of(verb: Verb) -> str:
    """The summary, and our own flags."""
    rows = [
        ("--kubeconfig FILE", "Kubeconfig of the control plane (or KUBECONFIG)."),
        ("--karmada-context NAME", "Context of that kubeconfig to use."),
    ]
    if MEMBERS in verb.scopes:
        short = "-C, " if verb.short_cluster else ""
        needed = "" if CONTROL in verb.scopes else " Needed."
        rows.insert(0, (f"{short}--cluster NAME", f"The member to work in.{needed}"))
    if len(verb.scopes) > 1:
        rows.insert(0, ("-s, --operation-scope SCOPE", "karmada (the control plane) or members."))
    lines = "\n".join(f"  {flag:<28}{text}" for flag, text in rows)
    return f"{verb.summary}.\n\nkubectl does it: it has to be on PATH.\n\n\b\nOur own flags:\n{lines}"


for _name, _verb in VERBS.items():
    _lines = "\n".join(f"karmadactl {_name} {words}".rstrip() for words in EXAMPLES[_name])
    app.command(
        _name,
        cls=PassedOn,
        help=_help_of(_verb),
        short_help=_verb.summary,
        add_help_option=False,
        options_metavar="[FLAGS AND ARGUMENTS OF KUBECTL]",
        epilog=f"Examples:\n\n\b\n{_lines}",
    )(_pass_on)

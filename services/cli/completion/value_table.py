"""Which options and arguments are completed with which values."""

from __future__ import annotations

from typing import Final

from services.cli.completion.completed_values import (
    clusters_or_taints_of,
    contexts_of,
    members_of,
    namespaces_of,
    objects_of,
)
from services.cli.completion.completer import Asked, Item, Table
from services.cli.completion.completion_scripts import SHELLS
from services.cli.completion.kubectl_completion import by_kubectl
from services.cli.members.member_options import REPORTS


def _shells(_: Asked) -> list[Item]:
    return [Item(shell) for shell in SHELLS]


def _reports(_: Asked) -> list[Item]:
    return [Item(report) for report in REPORTS]


TABLE: Final = Table(
    options={
        **dict.fromkeys(("--clusters", "--cluster", "--from"), members_of),
        "--namespace": namespaces_of,
        "--karmada-context": contexts_of,
        "--report-secrets": _reports,
    },
    arguments={
        **dict.fromkeys(("get", "promote", "history", "explain", "endpoints"), objects_of),
        "trace export": objects_of,
        **dict.fromkeys(("cordon", "uncordon", "unjoin", "unregister"), members_of),
        "taint": clusters_or_taints_of,
        "completion": _shells,
    },
    pass_on=by_kubectl,
)

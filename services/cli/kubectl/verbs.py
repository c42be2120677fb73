"""The commands that kubectl carries out, and in which clusters each of them works."""

from __future__ import annotations

from typing import Final, NamedTuple

CONTROL: Final = "karmada"
MEMBERS: Final = "members"
SCOPES: Final = (CONTROL, MEMBERS, "all")


class Verb(NamedTuple):
    """A command of kubectl: where it may work, and its shorthands that take no value (the others take one)."""

    summary: str
    scopes: tuple[str, ...]
    switches: str = "h"
    short_cluster: bool = False


_BOTH: Final = (CONTROL, MEMBERS)
CONTROL_ONLY: Final = (CONTROL,)
VERBS: Final = {
    "describe": Verb("Show objects of the control plane or of a member in detail", _BOTH, "hAR", short_cluster=True),
    "logs": Verb("Print the logs of a container in a member", (MEMBERS,), "hfp", short_cluster=True),
    "exec": Verb("Run a command in a container", _BOTH, "hitq"),
    "attach": Verb("Attach to a process that runs in a container", _BOTH, "hitq"),
    "explain": Verb("Document the fields of a kind", _BOTH),
    "api-resources": Verb("List the kinds that the control plane or a member serves", _BOTH),
    "api-versions": Verb("List the groups and versions that the control plane or a member serves", _BOTH),
    "create": Verb("Create an object of the control plane from a file or from flags", CONTROL_ONLY, "hR"),
    "delete": Verb("Delete objects of the control plane", CONTROL_ONLY, "hARi"),
    "edit": Verb("Edit an object of the control plane in your editor", CONTROL_ONLY, "hR"),
    "patch": Verb("Change fields of an object of the control plane", CONTROL_ONLY, "hR"),
    "label": Verb("Change labels of objects of the control plane", CONTROL_ONLY, "hAR"),
    "annotate": Verb("Change annotations of objects of the control plane", CONTROL_ONLY, "hAR"),
}
"""The commands that kubectl carries out, by name."""

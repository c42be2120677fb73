"""Options of the commands `fleetlog log …`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer


class RepairOptions(NamedTuple):
    """What a repair may do: set damaged messages aside, and also those that nothing can bring back."""

    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Mend what can be mended and set the rest aside; else only show it.")
    ] = False
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on although the only state of an object is lost.")
    ] = False


class ExportChoice(NamedTuple):
    """What to export: `since` and `until` are positions in FACTS or moments, `subject` a pattern; empty for all."""

    since: Annotated[str, typer.Option("--since", help="First position, a time, or how long ago: 1200, 10m.")] = ""
    until: Annotated[str, typer.Option("--until", help="Last position, a time, or how long ago.")] = ""
    subject: Annotated[str, typer.Option("--subject", help="Pattern of subjects: `work.member1.>`.")] = ""

    @property
    def all(self) -> bool:
        """Whether nothing is left out."""
        return not (self.since or self.until or self.subject)

"""`fleetlog up` whose children get further settings, each its own: what an installation has no option for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from services.cli.fleetlog import main
from services.cli.installation.processes import Supervisor
from services.cli.supervision.supervised_process import Rank


def up(more: Callable[[str], Mapping[str, str]]) -> None:
    """Run the command; `more` is asked for the further settings of every child by its name."""
    plain = Supervisor.add_service

    def add_service(
        self: Supervisor, name: str, rank: Rank, module: str, environment: Mapping[str, str], **others: Any
    ) -> None:
        plain(self, name, rank, module, {**environment, **more(name)}, **others)

    Supervisor.add_service = add_service  # type: ignore[method-assign]  # it has no hook, and needs none elsewhere
    sys.exit(main())

"""Builds the columns and rows of a Table for objects of any kind."""

import datetime as dt
from typing import Any, Final, Protocol

from schemas.manifest import Manifest
from services.apiserver.tables.cluster import CLUSTER
from services.apiserver.tables.config import CONFIG
from services.apiserver.tables.custom import custom_printer
from services.apiserver.tables.network import NETWORK
from services.apiserver.tables.pods import PODS
from services.apiserver.tables.printer import CREATED_TEXT, NAME, Cells, Column, Printer, name_of
from services.apiserver.tables.workloads import WORKLOADS


class TableKind(Protocol):
    """What a table needs to know of a kind: its resource (`group`, `plural`); custom kinds also have `columns`."""

    @property
    def resource(self) -> Any:
        """The names of the kind."""


def _plain(obj: Manifest, now: dt.datetime) -> Cells:  # noqa: ARG001
    return [name_of(obj), (obj.get("metadata") or {}).get("creationTimestamp") or ""]


_PLAIN: Final = Printer((NAME, Column("Created At", "date", description=CREATED_TEXT)), _plain)
_BUILT_IN: Final[dict[tuple[str, str], Printer]] = {("", "pods"): PODS, **WORKLOADS, **CLUSTER, **NETWORK, **CONFIG}


def printer_of(kind: TableKind) -> Printer:
    """Return the table of a kind; kinds without one of their own have name and time of creation."""
    columns = getattr(kind, "columns", None)
    if columns is not None:
        return custom_printer(columns)
    return _BUILT_IN.get((kind.resource.group, kind.resource.plural), _PLAIN)

"""What a panel is, the queries that panels share, and how Grafana writes them down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

WINDOW: Final = "$__rate_interval"
SOURCE: Final = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
COLUMNS: Final = 24
MINE: Final = 'installation=~"$installation"'
"""In every selector: several installations may be in one Prometheus. Where scrapes set no such label, all match."""
OURS: Final = "and on (instance, job) fleetlog_leader"
"""Leaves out processes of others that the same Prometheus scrapes."""

Kind = Literal["timeseries", "stat", "gauge", "table", "state-timeline"]
Steps = tuple[tuple[float, str], ...]
"""Colours from values on; below the first one a panel is green."""

BAD_ABOVE_ZERO: Final[Steps] = ((1, "red"),)
NOTICE_ABOVE_ZERO: Final[Steps] = ((1, "orange"),)
FILLING: Final[Steps] = ((70, "orange"), (90, "red"))
SHARE: Final[Steps] = ((85, "orange"), (95, "red"))
UP: Final = {0: ("no", "red"), 1: ("yes", "green")}

_TOKENS: Final = re.compile(
    r"""(?P<skipped>"[^"]*"|\[[^\]]*\]|\b(?:by|on|ignoring|group_left)\ \([^)]*\)|\b[\d.]+(?:e-?\d+|[smhdwy])?)"""
    r"""|(?P<name>[a-zA-Z_:][\w:]*)(?P<next>\ ?[({])?""",
    re.VERBOSE,
)
_WORDS: Final = frozenset({"and", "or", "unless", "bool", "offset", "sum", "min", "max", "count"})
_INSIDE: Final = re.compile(r"\{[^}]*\}")


class Query(NamedTuple):
    """One query and what its lines, or its column, are called."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """One panel; widths and heights in Grafana's units, of which a row has 24."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Kind = "timeseries"
    steps: Steps = ()
    states: dict[int, tuple[str, str]] | None = None
    about: str = ""
    width: int = 8
    height: int = 8


class Row(NamedTuple):
    """Panels below a title."""

    title: str
    panels: Sequence[Panel]


class Variable(NamedTuple):
    """What users choose from, with the query for the choices; panels name it with a dollar sign."""

    name: str
    query: str


class Dashboard(NamedTuple):
    """One dashboard."""

    title: str
    rows: Sequence[Row]
    variables: tuple[Variable, ...] = ()

    @property
    def panels(self) -> list[Panel]:
        """All of its panels."""
        return [panel for row in self.rows for panel in row.panels]


def lines(title: str, expr: str, legend: str, unit: str = "short", *, steps: Steps = (), about: str = "") -> Panel:
    """Values over time."""
    return Panel(title, (Query(expr, legend),), unit, steps=steps, about=about)


def number(title: str, expr: str, unit: str = "short", *, steps: Steps = (), about: str = "") -> Panel:
    """One present value, coloured."""
    return Panel(title, (Query(expr, title.lower()),), unit, "stat", steps, about=about, width=4, height=4)


def states(title: str, expr: str, legend: str, named: dict[int, tuple[str, str]], about: str = "") -> Panel:
    """When each of several things was in which state."""
    return Panel(title, (Query(expr, legend),), kind="state-timeline", states=named, about=about, width=12)


def table(title: str, columns: Sequence[Query], *, steps: Steps = (), about: str = "", width: int = 12) -> Panel:
    """Present values, one column per query; rows are told apart by the labels that the queries leave."""
    return Panel(title, tuple(columns), kind="table", steps=steps, about=about, width=width)


def quantile(share: float, metric: str, by: str) -> str:
    """The query for a quantile of a histogram by some labels."""
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket[{WINDOW}])))"


def rate(metric: str, by: str) -> str:
    """The query for a counter's growth per second by some labels."""
    return f"sum by ({by}) (rate({metric}[{WINDOW}]))"


def grown(metric: str, by: str) -> str:
    """The query for a counter's growth by some labels."""
    return f"sum by ({by}) (increase({metric}[{WINDOW}]))"


def success(metric: str, good: str) -> str:
    """The query for the share of good outcomes in percent, 100 while nothing happens."""
    whole = f"sum(rate({metric}[{WINDOW}]))"
    bad = f'(sum(rate({metric}{{result!="{good}"}}[{WINDOW}])) or 0 * {whole})'
    return f"100 * (1 - {bad} / clamp_min({whole}, 1e-9))"


def failed(metric: str, by: str, bad: str = 'result="error"') -> str:
    """The query for the share of failures in percent by some labels, 0 while nothing happens."""
    whole = f"sum by ({by}) (rate({metric}[{WINDOW}]))"
    return f"100 * (sum by ({by}) (rate({metric}{{{bad}}}[{WINDOW}])) or 0 * {whole}) / clamp_min({whole}, 1e-9)"


def scoped(expr: str) -> str:
    """A query of the chosen installations only: every selector gets their matcher."""

    def selector(found: re.Match[str]) -> str:
        name, following = found["name"], found["next"] or ""
        if found["skipped"] or name in _WORDS or following.endswith("("):
            return found[0]
        return f"{name}{{{MINE}, " if following else f"{name}{{{MINE}}}"

    parts, position = [], 0
    for inside in _INSIDE.finditer(expr):
        # Up to the brace a selector is changed; within it are labels.
        parts.append(_TOKENS.sub(selector, expr[position : inside.start() + 1]))
        parts.append(expr[inside.start() + 1 : inside.end()])
        position = inside.end()
    return "".join([*parts, _TOKENS.sub(selector, expr[position:])])


def variable(each: Variable) -> dict[str, Any]:
    """A choice of several values, all of them at first."""
    return {
        "name": each.name,
        "type": "query",
        "datasource": SOURCE,
        "query": each.query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    found: dict[str, Any] = {"unit": panel.unit}
    if panel.steps or panel.kind in ("stat", "gauge"):
        steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
        steps += [{"color": colour, "value": value} for value, colour in panel.steps]
        found["thresholds"] = {"mode": "absolute", "steps": steps}
        found["color"] = {"mode": "thresholds" if panel.kind != "timeseries" else "palette-classic"}
    if panel.kind == "timeseries" and panel.steps:
        found["custom"] = {"thresholdsStyle": {"mode": "dashed"}}
    if panel.states:
        options = {
            str(value): {"text": text, "color": colour, "index": value}
            for value, (text, colour) in panel.states.items()
        }
        found["mappings"] = [{"type": "value", "options": options}]
    return found


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "stat" | "gauge":
            return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background"}
        case "state-timeline":
            return {"showValue": "never", "mergeValues": True}
        case "timeseries" | "table":
            return {}


def _target(panel: Panel, place: int, query: Query) -> dict[str, Any]:
    found = {
        "refId": chr(ord("A") + place),
        "datasource": SOURCE,
        "expr": scoped(query.expr),
        "legendFormat": query.legend,
    }
    if panel.kind == "table":
        found |= {"format": "table", "instant": True}
    return found


def document(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    """One panel at its place."""
    found: dict[str, Any] = {
        "id": number,
        "title": panel.title,
        "description": panel.about,
        "type": panel.kind,
        "datasource": SOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
        "targets": [_target(panel, place, query) for place, query in enumerate(panel.queries)],
    }
    if panel.kind == "table":
        names = {f"Value #{chr(ord('A') + place)}": query.legend for place, query in enumerate(panel.queries)}
        # With one query its column has no letter.
        names |= {"Value": panel.queries[0].legend}
        found["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}},
        ]
    return found

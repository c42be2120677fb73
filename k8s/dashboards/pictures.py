"""Draws every dashboard from what a Prometheus answers: `just pictures http://127.0.0.1:9090 [DIRECTORY]`.

For documents, and for a look without Grafana. matplotlib is no dependency: the recipe brings it.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("agg")
# The backend is chosen before anything is drawn.
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from PIL import Image

from k8s.dashboards.generate import DASHBOARDS, dashboard, filled
from k8s.dashboards.panels import Panel

Series = dict[str, Any]
SECONDS: Final = 15 * 60
STEP: Final = 15
MOST: Final = 6
"""Lines and rows that one panel shows at most."""
DPI: Final = 72
INCHES: Final = (18.0, 0.42)
"""Width of a picture, and height of one of the rows that Grafana's places are counted in."""
COLUMNS: Final = 24
"""Grafana's places in one row."""
EDGES: Final = {"left": 1.0, "right": 0.35, "above": 0.9, "below": 0.75}
"""What titles, scales and the space between panels take of a panel, in places."""
TOP: Final = 2
"""Rows of the picture's own title."""
COLOURS: Final = {"green": "#56a64b", "orange": "#ff9830", "red": "#e02f44", "dark-red": "#8b0000", "yellow": "#fade2a"}
UNITS: Final[dict[str, Callable[[float], str]]] = {
    "percent": lambda value: f"{value:.3g} %",
    "percentunit": lambda value: f"{100 * value:.3g} %",
    "s": lambda value: f"{value * 1000:.3g} ms" if abs(value) < 1 else f"{value:.3g} s",
    "bytes": lambda value: f"{value / (1 << 20):.3g} MiB",
    "ops": lambda value: f"{value:.3g}/s",
}


class Source:
    """One Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._now = time.time()

    def _ask(self, path: str, **parameters: str) -> list[Series]:
        address = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            found: list[Series] = json.load(answer)["data"]["result"]
        return found

    def now(self, expr: str) -> list[Series]:
        """Present values."""
        return self._ask("query", query=filled(expr, "1m"), time=str(self._now))

    def lately(self, expr: str) -> list[Series]:
        """Values of the last minutes, the largest first."""
        begin = str(self._now - SECONDS)
        found = self._ask("query_range", query=filled(expr, "1m"), start=begin, end=str(self._now), step=str(STEP))
        return sorted(found, key=lambda one: -max((abs(float(value)) for _, value in one["values"]), default=0.0))

    def minutes(self, at: float) -> float:
        """Minutes before now."""
        return (at - self._now) / 60


def _name(legend: str, labels: dict[str, str]) -> str:
    for label, value in labels.items():
        legend = legend.replace(f"{{{{{label}}}}}", value)
    # What has no such label is a zero that stands for nothing at all.
    return re.sub(r"\{\{.*?\}\}", "", legend).strip()[:38] or "none"


def _text(panel: Panel, value: float) -> str:
    return UNITS.get(panel.unit, lambda number: f"{number:.4g}")(value)


def _cell(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _colour(panel: Panel, value: float) -> str:
    reached = [colour for bound, colour in panel.steps if value >= bound]
    return COLOURS[reached[-1] if reached else "green"]


def _number(axes: Axes, panel: Panel, source: Source) -> None:
    values = [float(one["value"][1]) for one in source.now(panel.queries[0].expr)]
    value = values[0] if values else 0.0
    axes.set_facecolor(_colour(panel, value))
    axes.text(0.5, 0.45, _text(panel, value), ha="center", va="center", fontsize=20, color="white")
    axes.set_xticks([])
    axes.set_yticks([])


def _lines(axes: Axes, panel: Panel, source: Source) -> None:
    for query in panel.queries:
        for one in source.lately(query.expr)[:MOST]:
            at = [source.minutes(float(moment)) for moment, _ in one["values"]]
            axes.plot(at, [float(value) for _, value in one["values"]], label=_name(query.legend, one["metric"]))
    _, highest = axes.get_ylim()
    for bound, colour in panel.steps:
        if bound <= highest:
            axes.axhline(bound, color=COLOURS[colour], linestyle="--", linewidth=1)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.yaxis.set_major_formatter(lambda value, _: _text(panel, value))
    axes.tick_params(labelsize=7)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=6, loc="upper left", frameon=False)


def _states(axes: Axes, panel: Panel, source: Source) -> None:
    found = sorted(source.lately(panel.queries[0].expr), key=lambda one: _name(panel.queries[0].legend, one["metric"]))
    # A row needs some height to be read.
    found = found[: 4 * MOST]
    named = panel.states or {}
    for row, one in enumerate(found):
        for moment, value in one["values"]:
            _, colour = named.get(int(float(value)), ("", "red"))
            span = (source.minutes(float(moment)) - STEP / 60, STEP / 60)
            axes.broken_barh([span], (row - 0.4, 0.8), color=COLOURS.get(colour, "#3274d9"))
        begin = source.minutes(float(one["values"][0][0]))
        axes.text(
            begin, row, f" {_name(panel.queries[0].legend, one['metric'])}", va="center", fontsize=6, color="white"
        )
    axes.set_yticks([])
    axes.tick_params(axis="x", labelsize=7)


def _table(axes: Axes, panel: Panel, source: Source) -> None:
    rows: dict[str, list[str]] = {}
    for column, query in enumerate(panel.queries):
        for one in source.now(query.expr):
            key = " ".join(value for label, value in sorted(one["metric"].items()) if label != "__name__")
            cells = rows.setdefault(key, [""] * len(panel.queries))
            cells[column] = _cell(float(one["value"][1]))
    axes.axis("off")
    shown = sorted(rows.items())
    if shown:
        made = axes.table(
            [[key, *cells] for key, cells in shown],
            colLabels=["", *(query.legend for query in panel.queries)],
            loc="upper center",
            cellLoc="left",
        )
        made.auto_set_font_size(False)
        made.set_fontsize(6)
        made.auto_set_column_width(list(range(len(panel.queries) + 1)))


DRAWN: Final = {"stat": _number, "gauge": _number, "timeseries": _lines, "state-timeline": _states, "table": _table}


def draw(uid: str, source: Source, path: Path) -> None:
    """One dashboard, its panels at the places that they have in Grafana."""
    board, written = DASHBOARDS[uid], dashboard(uid)
    places = [panel for panel in written["panels"] if panel["type"] != "row"]
    tops = sorted({each["gridPos"]["y"] for each in places})
    # Rows that only hold a heading are left out.
    heights = {top: max(each["gridPos"]["h"] for each in places if each["gridPos"]["y"] == top) for top in tops}
    above = {top: TOP + sum(heights[before] for before in tops if before < top) for top in tops}
    rows = TOP + sum(heights.values())
    figure = plt.figure(figsize=(INCHES[0], rows * INCHES[1]), dpi=DPI)
    for panel, written_panel in zip(board.panels, places, strict=True):
        at = written_panel["gridPos"]
        lower = rows - above[at["y"]] - at["h"] + EDGES["below"]
        wide, high = at["w"] - EDGES["left"] - EDGES["right"], at["h"] - EDGES["above"] - EDGES["below"]
        axes = figure.add_axes(
            ((at["x"] + EDGES["left"]) / COLUMNS, lower / rows, wide / COLUMNS, high / rows),
        )
        axes.set_title(panel.title, fontsize=10, loc="left")
        DRAWN[panel.kind](axes, panel, source)
    figure.suptitle(written["title"], fontsize=14, y=1 - 0.5 / rows)
    drawn = io.BytesIO()
    figure.savefig(drawn)
    plt.close(figure)
    # Few colours: an eighth of the bytes.
    Image.open(drawn).convert("RGB").quantize(32).save(path, optimize=True)


def main() -> None:
    """Draw all of them."""
    parser = argparse.ArgumentParser(description="Draw the dashboards from what a Prometheus answers.")
    parser.add_argument("prometheus", help="its URL; it has to have looked at an installation for some minutes")
    parser.add_argument("directory", nargs="?", type=Path, default=Path("docs/pictures"))
    chosen = parser.parse_args()
    chosen.directory.mkdir(parents=True, exist_ok=True)
    source = Source(chosen.prometheus)
    for uid in DASHBOARDS:
        draw(uid, source, chosen.directory / f"{uid}.png")


if __name__ == "__main__":
    main()

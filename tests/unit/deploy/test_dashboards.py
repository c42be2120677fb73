"""The dashboards are what their generator writes, every query is of chosen installations, no panel covers another."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from k8s.dashboards import generate
from k8s.dashboards.panels import COLUMNS, scoped

ROOT = Path(__file__).parents[3]
DIRECTORY = ROOT / "k8s" / "dashboards"
QUERIES = {
    f"{uid}: {panel.title}": query.expr
    for uid, board in generate.DASHBOARDS.items()
    for panel in board.panels
    for query in panel.queries
}


def test_committed_files_match_the_generator() -> None:
    present = {path.name: path.read_text() for path in (*DIRECTORY.glob("*.json"), DIRECTORY / "kustomization.yaml")}
    assert present == generate.documents(), "run: python -m k8s.dashboards.generate"


def test_every_dashboard_has_a_config_map() -> None:
    maps = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())["configMapGenerator"]
    assert {name for one in maps for name in one["files"]} == {path.name for path in DIRECTORY.glob("*.json")}


def test_choices_of_a_dashboard_are_named_in_its_panels() -> None:
    for board in generate.DASHBOARDS.values():
        queries = " ".join(query.expr for panel in board.panels for query in panel.queries)
        assert set(re.findall(r"\$(?!__)(\w+)", queries)) == {each.name for each in board.variables}
        assert "$" not in generate.filled(queries, "1m")


def test_selectors_name_the_chosen_installations() -> None:
    mine = 'installation=~"$installation"'
    assert scoped("up") == f"up{{{mine}}}"
    assert scoped('sum by (a, b) (rate(x_total{c="x and y"}[5m])) > 1e-9') == (
        f'sum by (a, b) (rate(x_total{{{mine}, c="x and y"}}[5m])) > 1e-9'
    )
    assert scoped("slo:a:b / on (sloth_slo) max by (sloth_slo) (y_bucket[$__rate_interval] offset 6h)") == (
        f"slo:a:b{{{mine}}} / on (sloth_slo) max by (sloth_slo) (y_bucket{{{mine}}}[$__rate_interval] offset 6h)"
    )
    for title, query in QUERIES.items():
        metrics = re.findall(r"\b(?:fleetlog|karmada|cluster|slo|process|scheduler_pending)[_:]\w[\w:]*", query)
        bare = [name for name in metrics if re.search(rf"{name}(?![\w:{{])", scoped(query))]
        assert bare == [], title


def test_counters_are_shown_by_their_growth() -> None:
    for title, query in QUERIES.items():
        for counter in re.findall(r"\w+(?:_total|_count|_bucket|_sum|_to_cluster)\b", query):
            if "present_over_time" not in query:
                assert re.search(rf"(?:rate|increase)\({counter}(?:{{[^}}]*}})?\[", query), title


def test_gauges_that_all_instances_offer_are_not_summed() -> None:
    own_of_each = ("apiserver", "gateway", "rate(", "increase(", "sum(max by", "process_")
    for title, query in QUERIES.items():
        if re.search(r"\bsum\b", query) and not any(part in query for part in own_of_each):
            assert "max by" in query, title


def test_panels_do_not_overlap() -> None:
    for text in generate.documents().values():
        if not text.startswith("{"):
            continue
        taken: set[tuple[int, int]] = set()
        for place in (panel["gridPos"] for panel in json.loads(text)["panels"]):
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not cells & taken
            assert max(x for x, _ in cells) < COLUMNS
            taken |= cells


def test_dashboards_show_more_than_lines() -> None:
    kinds = {panel.kind for board in generate.DASHBOARDS.values() for panel in board.panels}
    assert kinds == {"timeseries", "stat", "gauge", "table", "state-timeline"}
    for uid, board in generate.DASHBOARDS.items():
        assert any(panel.steps for panel in board.panels), f"{uid} has no thresholds"

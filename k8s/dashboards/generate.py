"""Writes the Grafana dashboards of this directory from their descriptions: `python -m k8s.dashboards.generate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml

from k8s.dashboards import apiserver, autoscaling, log, members, objectives, overview, propagation, scheduler
from k8s.dashboards.panels import COLUMNS, WINDOW, Dashboard, Variable, document, scoped, variable

HERE: Final = Path(__file__).parent
INSTALLATION: Final = Variable("installation", "label_values(fleetlog_leader, installation)")
DASHBOARDS: Final[dict[str, Dashboard]] = {
    "fleetlog-overview": overview.DASHBOARD,
    "fleetlog-objectives": objectives.DASHBOARD,
    "fleetlog-apiserver": apiserver.DASHBOARD,
    "fleetlog-log": log.DASHBOARD,
    "fleetlog-propagation": propagation.DASHBOARD,
    "fleetlog-scheduler": scheduler.DASHBOARD,
    "fleetlog-autoscaling": autoscaling.DASHBOARD,
    "fleetlog-members": members.DASHBOARD,
}


def filled(query: str, window: str) -> str:
    """A query as Prometheus takes it: with everything chosen, and rates over a window."""
    names = {each.name for board in DASHBOARDS.values() for each in (INSTALLATION, *board.variables)}
    query = scoped(query)
    # Longer ones first: one may begin like another.
    for name in sorted(names, key=len, reverse=True):
        query = query.replace(f"${name}", ".*")
    return query.replace(WINDOW, window)


def _panels(board: Dashboard) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    for row in board.rows:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        found.append({"id": len(found) + 1, "type": "row", "title": row.title, "gridPos": place, "panels": []})
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, height = 0, y + height, 0
            found.append(document(panel, len(found) + 1, x, y))
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return found


def dashboard(uid: str) -> dict[str, Any]:
    """One dashboard as Grafana imports it."""
    board = DASHBOARDS[uid]
    return {
        "uid": uid,
        "title": f"Fleetlog: {board.title}",
        "tags": ["fleetlog"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "title": "Fleetlog", "tags": ["fleetlog"], "asDropdown": True}],
        "templating": {
            "list": [
                {"name": "DS_PROMETHEUS", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                *(variable(each) for each in (INSTALLATION, *board.variables)),
            ]
        },
        "panels": _panels(board),
    }


def kustomization() -> str:
    """A ConfigMap for each dashboard, as the sidecar of Grafana's chart looks for them."""
    found = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "generatorOptions": {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}},
        "configMapGenerator": [{"name": uid, "files": [f"{uid}.json"]} for uid in DASHBOARDS],
    }
    return "# Written by k8s/dashboards/generate.py.\n" + yaml.safe_dump(found, sort_keys=False)


def documents() -> dict[str, str]:
    """Every generated file by its name."""
    boards = {f"{uid}.json": json.dumps(dashboard(uid), indent=2) + "\n" for uid in DASHBOARDS}
    return {**boards, "kustomization.yaml": kustomization()}


if __name__ == "__main__":
    for file, text in documents().items():
        (HERE / file).write_text(text, encoding="utf-8")

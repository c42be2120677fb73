"""Installed plugins take part in decisions: found by their entry point, named where they fail."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from schemas.events.placement import PlacementDecided
from services._kit.base.settings import SettingsError, load
from services._rules.scheduling.plugin_set import STANDARD, PluginError
from services.cli.queries.explain import reasons
from services.scheduler.app import Scheduler
from services.scheduler.decide import Rules, decide_with_trace
from services.scheduler.decision_trace import explained
from services.scheduler.plugins import GROUP, load_plugins
from services.scheduler.settings import SchedulerSettings
from tests.support.facts import KEY, NOW, ONE_CLUSTER, binding, cluster
from tests.support.harness import SCHEDULER, Harness

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "scheduler-plugin"
ONE = {
    "replicaScheduling": {"replicaSchedulingType": "Duplicated"},
    **ONE_CLUSTER,
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example's package, installed as its pyproject.toml says."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "fleetlog_frugal-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = "".join(f"{name} = {value}\n" for name, value in project["entry-points"][GROUP].items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("fleetlog_frugal", None)


def world(**labels: dict[str, str]) -> Any:
    fleet = (cluster(name, labels=found) for name, found in labels.items())
    return Harness(SCHEDULER, *fleet, binding(2, ONE)).state


def price(euros: str, **more: str) -> dict[str, str]:
    return {"frugal.example.com/price": euros, **{f"frugal.example.com/{name}": value for name, value in more.items()}}


def rules(**variables: str) -> Rules:
    return load(SchedulerSettings, {f"FLEETLOG_{name}": value for name, value in variables.items()}).rules()


FLEET = {"m1": price("30"), "m2": price("10"), "m3": price("1", budget="spent")}


def test_installed_plugin_filters_and_scores(installed: None) -> None:
    event, considered = decide_with_trace(world(**FLEET), KEY, NOW, "default-scheduler", rules=rules())
    assert isinstance(event, PlacementDecided)
    assert considered is not None
    assert [target.name for target in event.clusters] == ["m2"]
    told = explained(event, considered)
    assert [(item.filter, item.reason, item.names) for item in told.refused] == [
        ("Frugal", "cluster(s) have spent their budget", ("m3",))
    ]
    assert {item.name: item.plugins for item in told.clusters} == {"m1": {"Frugal": 0}, "m2": {"Frugal": 100}}
    shown = "".join(reasons(told, wide=True))
    assert "100 (Frugal 100)" in shown
    assert "cluster(s) have spent their budget" in shown


def test_disabled_plugin_is_not_imported(installed: None) -> None:
    event, _ = decide_with_trace(world(**FLEET), KEY, NOW, "default-scheduler", rules=rules(PLUGINS="*,-Frugal"))
    assert isinstance(event, PlacementDecided)
    assert [target.name for target in event.clusters] == ["m1"]
    assert "fleetlog_frugal" not in sys.modules


def test_plugin_list_may_name_one_installed_plugin(installed: None) -> None:
    found = rules(PLUGINS="Frugal,Unknown").options.plugins
    assert found.names == frozenset()
    assert [name for name, _ in found.outside] == ["Frugal"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("no_such_module:X", "ModuleNotFoundError"),
        ("json:NoSuchThing", "AttributeError"),
        ("math:sqrt", "TypeError"),
        ("builtins:dict", "a dict has neither a method filter nor a method score"),
    ],
)
def test_plugin_that_cannot_be_made_prevents_the_start(value: str, told: str) -> None:
    point = EntryPoint("Broken", value, GROUP)
    with pytest.raises(PluginError, match='failed to initialize plugin "Broken": ') as caught:
        load_plugins(("*",), {}, [point])
    assert told in str(caught.value)
    assert value in str(caught.value)
    assert load_plugins(("*", "-Broken"), {}, [point]).names == STANDARD


def test_broken_plugin_is_reported_by_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nBroken = no_such_module:X\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingsError, match=r'^FLEETLOG_PLUGINS: failed to initialize plugin "Broken"'):
        Scheduler(load(SchedulerSettings, {}))

"""Loads the plugins of a scheduler: installed ones, filtered by the flag `--plugins`.

Source: docs/sources.md#scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from services._rules.scheduling.plugin_set import PluginError, PluginSet, builtin_names, enabled, registry
from services._rules.scheduling.plugins.interface import FilterPlugin, Plugin, ScorePlugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "fleetlog.scheduler_plugins"
"""Entry points of this group are plugins: their name, and a class or function that makes one."""


def load_plugins(
    wanted: Iterable[str], gates: Mapping[str, bool], offered: Iterable[EntryPoint] | None = None
) -> PluginSet:
    """The plugins that the list turns on; those of others are made here, the ones left out are not even imported.

    `offered` are the entry points to choose from, by default those of all installed packages. Raises PluginError
    where two plugins have one name or where one cannot be made.
    """
    builtin = builtin_names(gates)
    points = sorted(_installed() if offered is None else offered, key=lambda point: point.name)
    names = enabled(registry(builtin, (point.name for point in points)), wanted)
    outside = tuple((point.name, _made(point)) for point in points if point.name in names)
    return PluginSet(names & builtin, outside)


def _installed() -> Iterable[EntryPoint]:
    # Imported only where plugins are loaded, because it takes long.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _made(point: EntryPoint) -> Plugin:
    try:
        plugin = point.load()()
    except Exception as error:
        raise PluginError(_refused(point, f"{type(error).__name__}: {error}")) from error
    if isinstance(plugin, FilterPlugin | ScorePlugin):
        return plugin
    raise PluginError(_refused(point, f"a {type(plugin).__name__} has neither a method filter nor a method score"))


def _refused(point: EntryPoint, why: str) -> str:
    return f'failed to initialize plugin "{point.name}": {why} (entry point {point.value})'

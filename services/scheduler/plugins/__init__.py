"""Loads the plugins that installed packages offer under the entry points `fleetlog.scheduler_plugins`."""

from services.scheduler.plugins.loading import GROUP, load_plugins

__all__ = ["GROUP", "load_plugins"]

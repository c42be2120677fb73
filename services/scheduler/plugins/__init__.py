"""Plugins of the scheduler: what one is written against, and how those of installed packages are loaded."""

from services._rules.scheduling.plugins.interface import FilterContext, Result
from services._rules.scheduling.scheduling_views import BindingView, ClusterView, Peers, Status
from services.scheduler.plugins.loading import GROUP, load_plugins

__all__ = ["GROUP", "BindingView", "ClusterView", "FilterContext", "Peers", "Result", "Status", "load_plugins"]

"""The catalogue of the override renderer's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.events.work import WorkRendered
from services._kit.base.metrics import KitMetrics, exponential
from services.override_renderer.state import RendererState


def register(metrics: KitMetrics, state: RendererState) -> None:
    """Offer what is rendered and how long it took."""
    reads = metrics.reads

    def works(*, broken: bool) -> int:
        return sum(
            1
            for bound in state.objects.values()
            for work, _ in bound.works.values()
            if isinstance(work, WorkRendered) and (not broken or work.problem)
        )

    reads.gauge("renderer_works", "Copies that clusters shall hold", lambda: works(broken=False))
    reads.gauge("renderer_broken_works", "Copies that could not be rendered again", lambda: works(broken=True))
    reads.gauge("renderer_override_policies", "Override policies in force", lambda: len(state.policies))
    rendering = metrics.timings(
        "binding_sync_work_duration_seconds",
        "Time from what changed a binding's works until they were on the log",
        ("result",),
        exponential(0.001, 2, 12),
    )

    def stored(events: Sequence[object], seconds: float) -> None:
        broken = any(isinstance(event, WorkRendered) and event.problem for event in events)
        rendering.observe(seconds, "error" if broken else "success")

    metrics.on_stored(stored)
    metrics.on_failed(lambda seconds: rendering.observe(seconds, "error"))

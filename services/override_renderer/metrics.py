"""The catalogue of the override renderer's metrics; the runtime's own are in services/_kit/metrics.py."""

from __future__ import annotations

from schemas.events.work import WorkRendered
from services._kit.metrics import ReadCollector
from services.override_renderer.state import RendererState


def register(reads: ReadCollector, state: RendererState) -> None:
    """Offer what is rendered."""

    def works(*, broken: bool) -> int:
        return sum(
            1
            for bound in state.objects.values()
            for work, _ in bound.works.values()
            if isinstance(work, WorkRendered) and (not broken or work.problem)
        )

    reads.gauge("renderer_works", "Copies that clusters shall hold", lambda: works(broken=False))
    reads.gauge("renderer_broken_works", "Copies that could not be rendered anew", lambda: works(broken=True))
    reads.gauge("renderer_override_policies", "Override policies in force", lambda: len(state.policies))

"""One FederatedHPA on its way through a round: what of its target is known, and what has been read for it."""

from __future__ import annotations

from msgspec import Struct, field

from schemas.events.autoscaling import ClusterScale
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.autoscaling.metric_specs import MetricSpec, metric_specs
from services._rules.kubernetes.selectors import Selector
from services.autoscaler.reading.metric_source import Answer, Question
from services.autoscaler.reading.object_watch import Watched
from services.autoscaler.reading.round_rules import scales_to_zero
from services.autoscaler.reading.sample_questions import Samples, Uses
from services.autoscaler.reading.scale_access import Scale
from services.autoscaler.scaling_effects import Refusal
from services.autoscaler.state import Target


class Job(Struct, eq=False):
    """One FederatedHPA on its way through a round."""

    key: PolicyKey
    watched: Watched
    specs: tuple[MetricSpec, ...]
    refusal: Refusal | None = None
    place: ObjectKey | None = None
    target: Target | None = None
    scale: Scale = Scale(0, "")
    selector: Selector | None = None
    clusters: tuple[ClusterScale, ...] = ()
    questions: dict[int, Question] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)

    @property
    def reference(self) -> Manifest:
        """What it scales."""
        return self.watched.reference

    @property
    def present(self) -> list[str]:
        """Clusters that may be asked."""
        return [item.cluster for item in self.clusters if not item.away]

    def uses(self, samples: Samples) -> dict[str, Uses]:
        """What the clusters of its target have answered."""
        found = {}
        for cluster in self.present:
            task = samples.get(cluster)
            if task is not None and task.done() and (uses := task.result()) is not None:
                found[cluster] = uses
        return found

    @property
    def samples_wanted(self) -> bool:
        """Whether it needs what containers use."""
        return any(spec.of_resource and not spec.problem for spec in self.specs)

    @property
    def least_zero(self) -> bool:
        """Whether it may have no replicas: then a target with requests is in no cluster."""
        return scales_to_zero(self.watched.metadata["annotations"], self.specs)

    @property
    def pods_wanted(self) -> bool:
        """Whether it needs to know which pods there are."""
        return any((spec.of_pods or spec.value is not None) and not spec.problem for spec in self.specs)


def job_of(key: PolicyKey, watched: Watched) -> Job:
    """A FederatedHPA of which nothing was read yet."""
    return Job(key, watched, metric_specs(watched.fields))

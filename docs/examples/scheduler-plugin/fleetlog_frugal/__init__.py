"""Leaves clusters out whose budget is spent and prefers cheap ones; both stand in labels of the Cluster."""

from services.scheduler.plugins import BindingView, ClusterView, Result, Status

BUDGET = "frugal.example.com/budget"
PRICE = "frugal.example.com/price"
# Of a cluster without a price: dearer than any that has one.
UNKNOWN = 1_000_000


class Frugal:
    """`spent` in the label of the budget keeps new work away; of the others the cheapest scores 100."""

    def filter(self, binding: BindingView, status: Status, cluster: ClusterView) -> Result | None:
        """A cluster that runs the binding already may go on."""
        runs_it = any(target.name == cluster.name for target in binding.clusters)
        if cluster.labels.get(BUDGET) == "spent" and not runs_it:
            return Result("Unschedulable", ("cluster(s) have spent their budget",))
        return None

    def score(self, binding: BindingView, cluster: ClusterView) -> int:
        """The price, turned into points below."""
        price = cluster.labels.get(PRICE, "")
        return int(price) if price.isdecimal() else UNKNOWN

    def normalize(self, scores: dict[str, int]) -> Result | None:
        """100 for the cheapest, 0 for the dearest."""
        if not scores:
            return None
        cheapest, dearest = min(scores.values()), max(scores.values())
        span = dearest - cheapest
        for name, price in scores.items():
            scores[name] = 100 * (dearest - price) // span if span else 0
        return None

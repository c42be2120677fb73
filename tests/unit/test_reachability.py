"""Production runs every symbol of the product, and golden vectors run what production runs."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.support.symbol_graph import Symbol, SymbolGraph

ROOT = Path(__file__).parents[2]
RUNNERS = sorted((ROOT / "tests" / "golden" / "runners").glob("*.py"))
PACKAGES = ("services", "schemas")

RUN_AS_MODULES = (
    "schemas.generate",
    "services.apiserver.crds.generate",
    "services.apiserver.protobuf.extract",
)
"""What developers run with `python -m`; the product names those that it runs itself."""

NOT_BUILT: dict[str, tuple[str, ...]] = {
    # Keys of objects in several clusters, as messages name them.
    "services._rules.names": (
        "cluster_wide_key",
        "federated_key",
        # Reads a stored Work, which exists as facts and as a view only.
        "cluster_of_execution_namespace",
        # Karmada's own estimators beside ours.
        "estimator_service_name",
    ),
    # Who may preempt follows from the policies as they are, whichever of them changed; Karmada asks when one falls.
    "services._rules.policies.preemption": ("requeued_after_priority_drop",),
    # Claims are removed by the id of a policy that is gone, not by the policy that a template names.
    "services._rules.policies.policy_claims": ("claim_labels_match",),
    # A binding is suspended beside its policy.
    "services._rules.delivery.cluster_rendering": ("merge_suspension",),
    # Events tell of the taints of a cluster.
    "services._rules.failover.taint_eviction": ("taints_message",),
}
"""Rules that recorded vectors test and that belong to behaviour to come; each group says which."""


@cache
def graph() -> SymbolGraph:
    return SymbolGraph(ROOT, PACKAGES)


def entry_points() -> set[Symbol]:
    """What starts a process or is called from outside."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    offered = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
    named = {(target.partition(":")[0], target.partition(":")[2]) for group in offered for target in group.values()}
    mains = {(name, "main") for name in graph().modules if name.endswith(".__main__")}
    return named | mains | {(name, "main") for name in RUN_AS_MODULES}


@cache
def reached() -> frozenset[Symbol]:
    return frozenset(graph().reached_from(entry_points()))


def exempt() -> set[Symbol]:
    return {(module, name) for module, names in NOT_BUILT.items() for name in names}


def dotted(symbols: set[Symbol]) -> list[str]:
    return sorted(f"{module}.{name}" for module, name in symbols)


def test_production_reaches_every_symbol() -> None:
    unused = graph().symbols() - reached() - graph().reached_from(exempt())
    assert not dotted(unused), "remove it, move what serves tests to tests/support, or let production call it"


def test_exemptions_exist_and_are_needed() -> None:
    named = {(module, name) for module, names in NOT_BUILT.items() for name in names}
    assert not dotted(named - graph().symbols())
    assert not dotted(named & reached()), "production reaches it now: take it off the list"


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda path: path.stem)
def test_golden_runners_import_what_production_runs(runner: Path) -> None:
    used = graph().reached_by(runner.read_text(encoding="utf-8"))
    unused = used - reached() - graph().reached_from(exempt())
    assert not dotted({symbol for symbol in unused if symbol[1]})


def write_package(root: Path, **modules: str) -> SymbolGraph:
    """A graph of the package `shop` with these modules."""
    (root / "shop").mkdir()
    for name, source in {"__init__": "", **modules}.items():
        (root / "shop" / f"{name}.py").write_text(source, encoding="utf-8")
    return SymbolGraph(root, ["shop"])


@pytest.mark.parametrize(
    "body",
    [
        "from shop.rules import price\ndef main(): return price()",
        "from shop import rules\ndef main(): return rules.price()",
        "from shop import rules as r\nTABLE = {'p': r.price}\ndef main(): return TABLE",
        "def main():\n    from shop.rules import price\n    return price()",
        "import shop.rules\ndef main(): return shop.rules.price()",
        "from shop.offers import price\ndef main(): return price()",
        "from shop.rules import price\nclass Shop:\n    def total(self): return price()\ndef main(): return Shop()",
        "from shop.rules import price\ndef main(): return app\n@app.command()\ndef cost(): return price()",
    ],
)
def test_graph_follows_names_through_imports(tmp_path: Path, body: str) -> None:
    rules, offers = "def price(): return 1\ndef twin(): return price()", "from shop.rules import price"
    graph = write_package(tmp_path, start=body, rules=rules, offers=offers)
    found = graph.reached_from([("shop.start", "main")])
    assert ("shop.rules", "price") in found
    assert ("shop.rules", "twin") not in found


@pytest.mark.parametrize(
    "body",
    [
        "from shop.rules import price\ndef main(): return 1",
        "from shop.rules import price\ndef main(price): return price()",
        "from shop.rules import price\ndef main():\n    price = 2\n    return price",
        "from shop.rules import price\ndef main(): return [price for price in (1, 2)]",
        "from shop.rules import price\ndef main(): return 1\nif __name__ == '__main__':\n    price()",
    ],
)
def test_import_or_local_name_alone_reaches_nothing(tmp_path: Path, body: str) -> None:
    graph = write_package(tmp_path, start=body, rules="def price(): return 1")
    assert ("shop.rules", "price") not in graph.reached_from([("shop.start", "main")])

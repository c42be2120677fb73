"""Feature gates: defaults, stages, and what is refused (reference 02 §8.5)."""

import pytest

from services._rules.feature_gates import DEFAULTS, STAGES, FeatureGateError, feature_gates

ON = {
    "ContextualLogging",
    "ControllerPriorityQueue",
    "CustomizedClusterResourceModeling",
    "GracefulEviction",
    "LoggingBetaOptions",
    "MultiClusterService",
    "PropagateDeps",
}


def on(*entries: str) -> set[str]:
    return {name for name, value in feature_gates(entries).items() if value}


def test_gates_that_are_on_by_default() -> None:
    assert on() == ON
    assert len(DEFAULTS) == 17


def test_a_stage_switches_all_its_gates() -> None:
    assert on("AllAlpha=true") == ON | set(STAGES["AllAlpha"])
    assert on("AllBeta=false") == {"MultiClusterService"}
    assert on("AllBeta=true") == ON | {"Failover"}
    assert on("AllAlpha=true", "AllBeta=true") == set(DEFAULTS)


@pytest.mark.parametrize(
    "entries", [("AllAlpha=true", "WorkloadAffinity=false"), ("WorkloadAffinity=false", "AllAlpha=true")]
)
def test_named_gate_overrides_its_stage(entries: tuple[str, str]) -> None:
    assert on(*entries) == ON | set(STAGES["AllAlpha"]) - {"WorkloadAffinity"}


def test_the_last_of_several_entries_for_one_gate_counts() -> None:
    assert "Failover" not in on("Failover=true", "Failover=false")
    assert "Failover" in on("Failover=0", " Failover = T ")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("WorkloadAfinity=true", r"'WorkloadAfinity' does not exist; did you mean WorkloadAffinity\?"),
        ("AllGamma=true", "'AllGamma' does not exist"),
        ("Failover", "write Failover=true or Failover=false"),
        ("Failover=perhaps", "write Failover=true or Failover=false"),
        ("=true", "'' does not exist"),
    ],
)
def test_unknown_feature_gate_is_refused_by_name(entry: str, told: str) -> None:
    with pytest.raises(FeatureGateError, match=told):
        feature_gates([entry])

"""The words of `karmadactl apply`: ours are taken out, all others stay for kubectl."""

from __future__ import annotations

from typing import Any

import pytest

from services.cli.common.running import Failed
from services.cli.promotion.apply_words import ApplyLine, read_words
from services.cli.promotion.applying import policies_of


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["-f", "a.yaml"], ApplyLine(("-f", "a.yaml"))),
        (["-f", "a", "-C", "m1,m2", "--cluster=m3"], ApplyLine(("-f", "a"), ("m1", "m2", "m3"))),
        (["-RCm1", "-f", "a"], ApplyLine(("-R", "-f", "a"), ("m1",))),
        (["-f", "C", "-lapp=C"], ApplyLine(("-f", "C", "-lapp=C"))),
        (["--all-clusters", "-f", "a"], ApplyLine(("-f", "a"), everywhere=True)),
        (["--all-clusters=false", "-f", "a"], ApplyLine(("-f", "a"))),
        (["--kubeconfig", "k", "--karmada-context=c", "-h"], ApplyLine((), kubeconfig="k", context="c", help=True)),
        (["-f", "a", "--", "-C", "m1"], ApplyLine(("-f", "a", "--", "-C", "m1"))),
    ],
)
def test_our_own_flags_are_taken_out(words: list[str], line: ApplyLine) -> None:
    assert read_words(words) == line


def test_impossible_words_are_refused() -> None:
    with pytest.raises(Failed, match="exclude each other"):
        read_words(["--all-clusters", "-C", "m1"])
    with pytest.raises(Failed, match="needs an argument: -C"):
        read_words(["-f", "a", "-C"])


def test_listing_writes_nothing_and_policies_follow_the_dry_run() -> None:
    line = read_words(["-f", "a", "-C", "m1", "--server-side", "--dry-run=server", "-o", "name", "-n", "web"])
    assert line.listing() == ["-f", "a", "-n", "web", "--dry-run=client", "-o=json"]
    assert line.for_policies() == ["--dry-run=server", "-o=name"]
    assert read_words(["-f", "a", "-oyaml", "-C", "m1"]).for_policies() == ["-o=yaml"]
    assert read_words(["-f", "a", "-oyaml", "-C", "m1"]).listing()[:2] == ["-f", "a"]


@pytest.mark.parametrize("words", [["-f", "-"], ["-f-"], ["--filename=-"], ["--filename", "-"]])
def test_standard_input_becomes_a_file(words: list[str]) -> None:
    read = ApplyLine(tuple(words)).reading("/tmp/x")
    assert "-" not in read.words
    assert "/tmp/x" in " ".join(read.words)
    assert ApplyLine(("-f", "a")).reading("/tmp/x") == ApplyLine(("-f", "a"))


def test_own_kinds_of_the_control_plane_get_no_policy() -> None:
    deployment: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "web"},
    }
    policy = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "p"}}
    made = policies_of([deployment, policy], ApplyLine((), ("m1",)))
    assert [item["spec"]["resourceSelectors"][0]["kind"] for item in made] == ["Deployment"]
    everywhere = policies_of([deployment], ApplyLine((), everywhere=True))
    assert everywhere[0]["spec"]["placement"] == {"clusterAffinity": {}}
    assert everywhere[0]["metadata"] == made[0]["metadata"]

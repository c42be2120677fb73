"""Claims of policies on templates: reading, replacing, and leaving inputs alone."""

import copy

import pytest

from services._rules.policies import policy_claims as claims
from services._rules.policies.policy_claims import Claim

PLAIN = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "labels": {"keep": "1"}},
    "data": {"k": "v"},
}
OF_CLUSTER = Claim("id-c", "", "everywhere")
OF_NAMESPACE = Claim("id-n", "default", "here")


@pytest.mark.parametrize("claim", [OF_CLUSTER, OF_NAMESPACE])
def test_a_claim_is_read_back(claim: Claim) -> None:
    claimed = claims.claim_template(PLAIN, claim)
    assert claims.read_claim(claimed) == claim
    assert claimed["metadata"]["labels"]["keep"] == "1"


def test_inputs_are_not_changed_and_untouched_parts_are_shared() -> None:
    before = copy.deepcopy(PLAIN)
    claimed = claims.claim_template(PLAIN, OF_NAMESPACE)
    cleaned = claims.clean_policy_claim(claimed)
    assert before == PLAIN
    assert claimed["data"] is PLAIN["data"] is cleaned["data"]
    assert claims.read_claim(claimed) == OF_NAMESPACE
    assert claims.read_claim(cleaned) is None


def test_a_namespaced_policy_takes_a_cluster_wide_claim_away() -> None:
    claimed = claims.claim_template(claims.claim_template(PLAIN, OF_CLUSTER), OF_NAMESPACE)
    assert claims.read_claim(claimed) == OF_NAMESPACE
    assert claims.clean_policy_claim(claimed)["metadata"]["labels"] == {"keep": "1"}


def test_a_cluster_wide_policy_leaves_a_namespaced_claim() -> None:
    claimed = claims.claim_template(claims.claim_template(PLAIN, OF_NAMESPACE), OF_CLUSTER)
    assert claims.read_claim(claimed) == OF_NAMESPACE
    assert claims.read_claim(claims.clean_policy_claim(claimed)) == OF_CLUSTER


@pytest.mark.parametrize("claim", [OF_CLUSTER, OF_NAMESPACE])
def test_claiming_twice_writes_nothing(claim: Claim) -> None:
    claimed = claims.claim_template(PLAIN, claim)
    assert claims.claim_template(claimed, claim) is claimed


def test_a_label_without_its_annotations_is_no_claim() -> None:
    partial = {"metadata": {"labels": OF_NAMESPACE.labels()}}
    assert claims.read_claim(partial) is None


def test_cleaning_an_unclaimed_object_returns_it() -> None:
    assert claims.clean_policy_claim(PLAIN) is PLAIN
    assert claims.clean_cluster_policy_claim(PLAIN) is PLAIN


def test_labels_of_a_claim_are_compared_before_cleaning() -> None:
    claimed = claims.claim_template(PLAIN, OF_NAMESPACE)
    assert claims.claim_labels_match(claimed, OF_NAMESPACE.labels())
    assert not claims.claim_labels_match(claimed, Claim("other", "default", "here").labels())
    assert not claims.claim_labels_match({"metadata": {}}, OF_NAMESPACE.labels())

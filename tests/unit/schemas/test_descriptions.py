"""Every kind and field of Karmada's groups is described, and the common ones of Kubernetes' kinds."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import msgspec
import pytest

from schemas.api import descriptions
from schemas.api.descriptions import karmada_description, kubernetes_description
from schemas.api.field_types import karmada_kinds, kubernetes_types
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.openapi.serve import OpenApi

TABLES = ("karmada_descriptions.json", "kubernetes_descriptions.json")


def sentences(table: str) -> dict[str, str]:
    return msgspec.json.decode(files(descriptions.__package__).joinpath(table).read_bytes(), type=dict[str, str])


def test_every_kind_and_field_of_karmada_is_described() -> None:
    missing = [
        kind["kind"] + field["path"]
        for kind in karmada_kinds()
        for field in kind["fields"]
        if not field["path"].endswith(("[]", "{}")) and not karmada_description(kind["kind"], field["path"])
    ]
    assert missing == []


def test_the_more_exact_place_counts() -> None:
    assert karmada_description("Work", ".spec").startswith("The manifests")
    assert karmada_description("PropagationPolicy", ".spec.placement.clusterTolerations[].key") == (
        "Key of the taint; all without a value."
    )
    assert karmada_description("Work", ".spec.workload.manifests[]") == ""
    assert kubernetes_description("io.k8s.api.apps.v1.DeploymentSpec", "strategy").startswith("How pods are replaced")
    assert kubernetes_description("io.k8s.api.apps.v1.Deployment", "unknown") == ""


@pytest.mark.parametrize("table", TABLES)
def test_descriptions_are_sentences(table: str) -> None:
    for place, text in sentences(table).items():
        assert text.endswith("."), place
        assert text[0].isupper() or text.startswith(("add,", "add or", "default")), place
        assert len(text) <= 120, place


def test_no_sentence_is_about_nothing() -> None:
    places = {
        f"{kind['kind']}{field['path'].rstrip('.')}".replace("[]", "").replace("{}", "")
        for kind in karmada_kinds()
        for field in kind["fields"]
    }
    ends = {".".join(place.split(".")[start:]) for place in places for start in range(place.count(".") + 1)}
    assert set(sentences(TABLES[0])) <= ends
    known = set()
    for name, raw in kubernetes_types().items():
        kind = name.rpartition(".")[2]
        known.add(kind)
        for row in msgspec.json.decode(raw)["f"]:
            known |= {row[0], f"{kind}.{row[0]}"}
    assert set(sentences(TABLES[1])) <= known


def test_documents_of_both_versions_carry_them() -> None:
    openapi = OpenApi(builtin_registry(), "v1.30.0")

    def document(path: str) -> dict[str, Any]:
        found = openapi.find(path, "application/json")
        assert found is not None
        return dict(msgspec.json.decode(found.body))

    old = document("openapi/v2")["definitions"]
    new = document("openapi/v3/apis/apps/v1")["components"]["schemas"]
    for schemas in (old, new):
        deployment = schemas["io.k8s.api.apps.v1.Deployment"]
        assert deployment["description"].startswith("Keeps a number of equal pods")
        assert deployment["properties"]["spec"]["description"] == "What is wanted."
    assert "$ref" in old["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"]
    assert "$ref" not in new["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"]

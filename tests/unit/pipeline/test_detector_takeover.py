"""A detector that takes over looks at what went away while another one led."""

from __future__ import annotations

from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from services.detector.app import Detector
from services.detector.settings import DetectorSettings
from services.detector.state import DetectorState, take_list, take_template

KEY = ObjectKey("apps", "deployments", "default", "web")
MANIFEST = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}


def test_what_was_deleted_before_the_term_began_is_looked_at() -> None:
    state = DetectorState()
    take_list(state, "deployments.apps", {KEY: MANIFEST})
    state.template_facts[KEY] = TemplateChanged(key=KEY, uid="u", api_version="apps/v1", kind="Deployment", digest="d")
    take_template(state, KEY, None)
    detector = Detector(DetectorSettings(control_kubeconfig="unused"))
    assert KEY in set(detector.recover(state))

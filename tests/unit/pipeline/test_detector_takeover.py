"""A detector that takes over looks at what went away while another one led."""

from __future__ import annotations

import msgspec

from schemas.codec import decode, encode
from schemas.events.binding import BindingRequested
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from schemas.subjects import binding
from services._kit.log.stream_port import Message
from services.detector.app import Detector
from services.detector.settings import DetectorSettings
from services.detector.state import DetectorState, take_list, take_template

KEY = ObjectKey("apps", "deployments", "default", "web")
MANIFEST = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}


def test_template_deleted_before_the_term_is_recovered() -> None:
    state = DetectorState()
    take_list(state, "deployments.apps", {KEY: MANIFEST})
    state.template_facts[KEY] = TemplateChanged(key=KEY, uid="u", api_version="apps/v1", kind="Deployment", digest="d")
    take_template(state, KEY, None)
    detector = Detector(DetectorSettings(control_kubeconfig="unused"))
    assert KEY in set(detector.recover(state))


def _binding(**changes: object) -> Message:
    asked = BindingRequested(key=KEY, uid="u", api_version="apps/v1", kind="Deployment", spec=msgspec.Raw(b"{}"))
    return Message(binding(KEY), 7, 0.0, {}, msgspec.json.encode({**msgspec.json.decode(encode(asked)), **changes}))


def test_fact_of_a_newer_version_blocks_its_key() -> None:
    detector, state = Detector(DetectorSettings(control_kubeconfig="unused")), DetectorState()
    newer, plain = _binding(type="BindingRequested.v99"), _binding()
    assert list(detector.unreadable(state, newer)) == [KEY]
    event = decode(plain.subject, plain.data)
    assert list(detector.fold(state, plain, event)) == [KEY]
    assert list(detector.fold(state, plain, event)) == []


def test_garbage_in_place_of_a_fact_blocks_no_key() -> None:
    detector, state = Detector(DetectorSettings(control_kubeconfig="unused")), DetectorState()
    garbage = msgspec.structs.replace(_binding(), data=b'{"type":"BindingReq')
    assert list(detector.unreadable(state, garbage)) == []

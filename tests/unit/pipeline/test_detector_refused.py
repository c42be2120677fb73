"""A control plane that refuses to mark a template quotes it; of a Secret the detector records none of that."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.keys import ObjectKey
from services._kit.kube.client import ApiError
from services.detector.app import Detector, Transient
from services.detector.policies.claim_writes import WriteClaim
from services.detector.settings import DetectorSettings

VALUE = "hunter2"


class _Refusing:
    def __init__(self, status: int) -> None:
        self._error = ApiError(status, VALUE, f'admission webhook "a.b.example" denied the request: {VALUE} is weak')

    async def patch(self, *_: Any) -> None:
        raise self._error


def detector(status: int) -> Detector:
    made = Detector(DetectorSettings(control_kubeconfig="unused"))
    made._client = _Refusing(status)  # type: ignore[assignment]  # all of it that is used
    return made


def claim(resource: str) -> WriteClaim:
    return WriteClaim(key=ObjectKey("", resource, "shop", "db"), api_version="v1", uid="u1", labels={}, annotations={})


@pytest.mark.parametrize(("status", "kind"), [(400, ApiError), (422, ApiError), (500, Transient), (429, Transient)])
async def test_refusal_of_a_secret_is_not_quoted(status: int, kind: type[Exception]) -> None:
    with pytest.raises(kind) as refused:
        await detector(status)._write(claim("secrets"))
    assert VALUE not in str(refused.value)
    assert "a.b.example" in str(refused.value)
    assert refused.value.__suppress_context__, "a traceback would quote it"


async def test_refusal_of_other_kinds_is_quoted() -> None:
    with pytest.raises(ApiError, match="hunter2 is weak"):
        await detector(400)._write(claim("configmaps"))

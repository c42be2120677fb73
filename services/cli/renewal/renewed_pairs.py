"""Decides which certificates are made again, and by which of the authorities at hand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from services.apiserver.auth.certificate_authority import Authority
from services.cli.common.running import Failed

FRONT_PROXY: Final = "front-proxy"
FRONT_PROXY_NAME: Final = "fleetlog-front-proxy-ca"
SIGNER: Final = "service-accounts"
"""Name of the pair that signs the tokens of ServiceAccounts: with another key, all of them would end."""
_GAIN: Final = 10
"""A renewed certificate lasts longer than the former one by this part of its life at least."""


def authorities_in(directory: Path) -> list[Authority]:
    """The authorities whose keys are in a directory, that of the front proxy among them; none is made."""
    found = []
    for place, name in ((directory, "fleetlog-ca"), (directory / FRONT_PROXY, FRONT_PROXY_NAME)):
        if (place / "ca.crt").exists() and (place / "ca.key").exists():
            authority = Authority(place, name)
            try:
                authority.load()
            except ValueError as error:
                raise Failed(f"the authority in {place} cannot be used: {error}") from None
            found.append(authority)
    return found


class Certificate:
    """A certificate as it is, with what signed it."""

    def __init__(self, place: str, pem: bytes, authorities: Sequence[Authority]) -> None:
        """`place` names it in messages. Raises Failed for what is none."""
        from cryptography import x509

        try:
            self._read = x509.load_pem_x509_certificate(pem)
        except ValueError as error:
            raise Failed(f"{place} holds no certificate that can be read: {error}") from None
        self._place = place
        self._pem = pem
        self._authority = next((one for one in authorities if one.signed(pem)), None)

    @property
    def ends(self) -> dt.datetime:
        """When it is good no longer."""
        return self._read.not_valid_after_utc

    @property
    def ours(self) -> bool:
        """Whether one of the authorities signed it."""
        return self._authority is not None

    @property
    def names(self) -> frozenset[str]:
        """Names and addresses of the server that it is for."""
        from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName

        with suppress(ExtensionNotFound):
            found = self._read.extensions.get_extension_for_class(SubjectAlternativeName).value
            return frozenset(str(one.value) for one in found)
        return frozenset()

    def due(self, now: dt.datetime) -> bool:
        """Whether it is in the last third of its life."""
        return self.ends - now <= (self.ends - self._read.not_valid_before_utc) / 3

    def renewed(self) -> tuple[bytes, bytes]:
        """Certificate and key in its place; raises Failed where no authority can make them."""
        authority = self._authority
        if authority is None:
            raise Failed(f"{self._place} was signed by none of the authorities at hand: renew it where it was made")
        life = self.ends - self._read.not_valid_before_utc
        if authority.ends < self.ends + life / _GAIN:
            raise Failed(
                f"{self._place} cannot be renewed: its authority ends at {authority.ends:%Y-%m-%d}, and no certificate "
                "lasts longer; make another authority and all certificates again"
            )
        from cryptography.x509 import ExtensionNotFound

        with suppress(ValueError, IndexError, ExtensionNotFound):
            return authority.renew(self._pem)
        raise Failed(f"{self._place} is no certificate of a server or a client as this product makes them")

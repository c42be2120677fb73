"""Certificates as they are after a part of their life."""

from __future__ import annotations

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from services.apiserver.auth.certificate_authority import Authority


def aged(authority: Authority, pem: bytes, *, days: float, left: float) -> tuple[bytes, bytes]:
    """A pair like that of a certificate, made so many days ago, with so many left."""
    old = x509.load_pem_x509_certificate(pem)
    signing = serialization.load_pem_private_key((authority.directory / "ca.key").read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(x509.load_pem_x509_certificate(authority.ca_pem).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=days))
        .not_valid_after(now + dt.timedelta(days=left))
    )
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return builder.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), private


def belong_together(pem: bytes, key: bytes) -> bool:
    """Whether a key is that of a certificate."""
    public = x509.load_pem_x509_certificate(pem).public_key()
    return serialization.load_pem_private_key(key, None).public_key() == public

"""The server's own certificate authority, serving and client certificates, kept in the data directory."""

import datetime as dt
import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

LIFETIME: Final = dt.timedelta(days=365 * 10)
"""Of certificates for which nothing else is said."""
_OF_AUTHORITY: Final = 2 * LIFETIME
"""A certificate lasts no longer than what signed it: one that is renewed in its last third has time left."""
_BACKDATED = dt.timedelta(days=1)
"""A machine whose clock is set back soon after its installation goes on trusting what was made before."""


def write_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file so that readers never see half of it."""
    part = path.with_suffix(path.suffix + ".part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, "wb") as out:
        out.write(data)
    part.replace(path)


class Authority:
    """A certificate authority in a directory: made on first use, read afterwards."""

    def __init__(self, directory: Path, name: str = "fleetlog-ca", lifetime: dt.timedelta = LIFETIME) -> None:
        self.directory = directory
        self._name = name
        self._lifetime = lifetime
        self._key: ec.EllipticCurvePrivateKey | None = None
        self._cert: x509.Certificate | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def ca_file(self) -> Path:
        """PEM of the authority's certificate."""
        return self.directory / "ca.crt"

    def load(self) -> None:
        """Make or read the authority."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key_file = self.directory / "ca.key"
        if key_file.exists() and self.ca_file.exists():
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise ValueError(f"{key_file}: an elliptic curve key was expected")
            self._key = key
            self._cert = x509.load_pem_x509_certificate(self.ca_file.read_bytes())
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name(self._name, ())
        self._cert = _sign(name, name, self._key.public_key(), self._key, ca=True, lifetime=_OF_AUTHORITY)
        write_file(key_file, _key_pem(self._key))
        write_file(self.ca_file, self._cert.public_bytes(serialization.Encoding.PEM), 0o644)

    @property
    def ca_pem(self) -> bytes:
        """PEM of the authority's certificate."""
        return self.ca_file.read_bytes()

    @property
    def ends(self) -> dt.datetime:
        """When the authority's certificate ends, and with it all that it signed."""
        if self._cert is None:
            self.load()
        assert self._cert is not None
        return self._cert.not_valid_after_utc

    def signed(self, cert_pem: bytes) -> bool:
        """Whether this authority signed a certificate."""
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature

        if self._cert is None:
            self.load()
        assert self._cert is not None
        try:
            x509.load_pem_x509_certificate(cert_pem).verify_directly_issued_by(self._cert)
        except (InvalidSignature, TypeError, ValueError):
            # Another key, another kind of key, or an issuer of another name.
            return False
        return True

    def server(self, names: tuple[str, ...]) -> tuple[Path, Path]:
        """Files of a serving certificate for host names and addresses, renewed when the names changed."""
        from cryptography import x509

        cert_file, key_file = self.directory / "server.crt", self.directory / "server.key"
        wanted = {*names, "localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default.svc"}
        if cert_file.exists() and key_file.exists():
            cert = x509.load_pem_x509_certificate(cert_file.read_bytes())
            sans = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            have = {str(n.value) for n in sans}
            fresh = cert.not_valid_after_utc > dt.datetime.now(dt.UTC) + dt.timedelta(days=30)  # noqa: TID251 - when files are made
            if wanted <= have and fresh and self._cert is not None and cert.issuer == self._cert.subject:
                return cert_file, key_file
        cert_pem, key_pem = self.issue("fleetlog-apiserver", (), sorted(wanted))
        write_file(key_file, key_pem)
        write_file(cert_file, cert_pem, 0o644)
        return cert_file, key_file

    def client(self, user: str, groups: tuple[str, ...]) -> tuple[Path, Path]:
        """Files of a client certificate."""
        stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in user)
        cert_file, key_file = self.directory / f"client-{stem}.crt", self.directory / f"client-{stem}.key"
        if not (cert_file.exists() and key_file.exists()):
            cert_pem, key_pem = self.issue(user, groups, None)
            write_file(key_file, key_pem)
            write_file(cert_file, cert_pem, 0o644)
        return cert_file, key_file

    def issue(
        self,
        user: str,
        groups: tuple[str, ...],
        names: list[str] | None,
        *,
        peer: bool = False,
        lifetime: dt.timedelta | None = None,
    ) -> tuple[bytes, bytes]:
        """Certificate and key PEM; `names` makes it a serving certificate, `peer` one that serves and calls.

        It is good for `lifetime`, or for that of the authority's certificates.
        """
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        if self._key is None or self._cert is None:
            self.load()
        assert self._key is not None
        assert self._cert is not None
        key = ec.generate_private_key(ec.SECP256R1())
        cert = _sign(
            _name(user, groups),
            self._cert.subject,
            key.public_key(),
            self._key,
            names=names,
            peer=peer,
            lifetime=self._lifetime if lifetime is None else lifetime,
        )
        return cert.public_bytes(serialization.Encoding.PEM), _key_pem(key)

    def renew(self, cert_pem: bytes) -> tuple[bytes, bytes]:
        """Certificate and key PEM with subject, names, usage and life of a certificate that this authority signed.

        It ends with the authority at the latest. Raises ValueError for another's.
        """
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        if self._cert is None:
            self.load()
        assert self._cert is not None
        old = x509.load_pem_x509_certificate(cert_pem)
        old.verify_directly_issued_by(self._cert)
        common = old.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        groups = tuple(str(one.value) for one in old.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
        usage = set(old.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        names = None
        if ExtendedKeyUsageOID.SERVER_AUTH in usage:
            names = [
                str(one.value) for one in old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            ]
        life = old.not_valid_after_utc - old.not_valid_before_utc - _BACKDATED
        left = self._cert.not_valid_after_utc - dt.datetime.now(dt.UTC)  # noqa: TID251 - when files are made
        return self.issue(str(common), groups, names, peer=len(usage) > 1, lifetime=min(life, left))


def _key_pem(key: "ec.EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(common: str, organizations: tuple[str, ...]) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _sign(
    subject: "x509.Name",
    issuer: "x509.Name",
    public: "ec.EllipticCurvePublicKey",
    key: "ec.EllipticCurvePrivateKey",
    *,
    ca: bool = False,
    names: list[str] | None = None,
    peer: bool = False,
    lifetime: dt.timedelta = LIFETIME,
) -> "x509.Certificate":
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    now = dt.datetime.now(dt.UTC)  # noqa: TID251 - when files are made
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=ca,
                crl_sign=ca,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    if not ca:
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH if names is None else ExtendedKeyUsageOID.SERVER_AUTH]
        if peer:
            usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    if names:
        alternatives = [_alternative(n) for n in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key, hashes.SHA256())


def _alternative(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

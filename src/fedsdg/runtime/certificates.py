"""Keys and certificates: one that lives as long as a job, and those of a small Flower deployment."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: The name in a job's certificate. Clients know the certificate itself, so no authority vouches for a host.
JOB_HOST = "fedsdg-job"
_CLOCKS_DIFFER = datetime.timedelta(minutes=10)


def job_certificate(days: int = 30) -> tuple[bytes, bytes]:
    """Return a fresh private key, for memory only, and the certificate that clients pin."""
    key = ec.generate_private_key(ec.SECP256R1())
    return _private(key), _public(_certificate(key, JOB_HOST, key, JOB_HOST, days, authority=True))


def write_authority(folder: Path, host: str, days: int = 360) -> None:
    """Write an authority and the server's certificate for a host: `ca.pem`, `server.pem`, `server.key`.

    The authority's own key is forgotten: it signs one certificate and nothing else ever.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    top = _certificate(authority, "fedsdg authority", authority, "fedsdg authority", days, authority=True)
    (folder / "ca.pem").write_bytes(_public(top))
    below = _certificate(server, host, authority, "fedsdg authority", days, authority=False)
    (folder / "server.pem").write_bytes(_public(below))
    _write_secret(folder / "server.key", _private(server))


def write_node_key(folder: Path, name: str) -> Path:
    """Write the key pair of a SuperNode, `name` and `name.pub`; return the place of the private one."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    ssh = serialization.PrivateFormat.OpenSSH
    private = key.private_bytes(serialization.Encoding.PEM, ssh, serialization.NoEncryption())
    _write_secret(folder / name, private)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public)
    return folder / name


def _certificate(
    key: ec.EllipticCurvePrivateKey,
    host: str,
    signer: ec.EllipticCurvePrivateKey,
    signer_name: str,
    days: int,
    *,
    authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(host))
        .issuer_name(_name(signer_name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(authority), critical=True)
    )
    if not authority or host == JOB_HOST:
        # A SuperLink's own processes reach it on this machine.
        hosts = [host] if authority else [host, "localhost", "127.0.0.1"]
        names = x509.SubjectAlternativeName([_host(name) for name in dict.fromkeys(hosts)])
        builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(signer, hashes.SHA384())


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _public(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_secret(file: Path, content: bytes) -> None:
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_bytes(content)

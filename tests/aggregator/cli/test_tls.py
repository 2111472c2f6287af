"""TLS in `sfumato serve`, with certificates made for each test."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sfumato.shared.command import main
from tests.aggregator.processes import running

NOW = datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Identity:
    """A certificate and its key as PEM files."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    cert_file: Path
    key_file: Path


def certify(folder: Path, name: str, issuer: Identity | None = None) -> Identity:
    """Make a certificate for loopback; without an issuer an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - datetime.timedelta(hours=1))
        .not_valid_after(NOW + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(issuer.key if issuer else key, hashes.SHA256())
    )
    cert_file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return Identity(certificate, key, cert_file, key_file)


@pytest.fixture
def authority(tmp_path: Path) -> Identity:
    return certify(tmp_path, "authority")


@pytest.fixture
def own(tmp_path: Path, authority: Identity) -> Identity:
    return certify(tmp_path, "server", authority)


def trusting(authority: Identity, client: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.cert_file))
    if client is not None:
        context.load_cert_chain(client.cert_file, client.key_file)
    return context


def options_of(own: Identity) -> list[str]:
    return ["--tls-cert", str(own.cert_file), "--tls-key", str(own.key_file)]


def test_a_server_with_a_certificate_speaks_https_and_nothing_else(
    authority: Identity, own: Identity
) -> None:
    with running("--host", "0.0.0.0", *options_of(own)) as url:
        assert url.startswith("https://0.0.0.0:")
        address = url.replace("0.0.0.0", "127.0.0.1")
        answer = httpx.get(f"{address}/readyz", verify=trusting(authority))
        assert answer.status_code == 200
        assert "strict-transport-security" in answer.headers
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{address}/readyz".replace("https", "http"))
        old = trusting(authority)
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{address}/readyz", verify=old)


def test_clients_must_show_a_certificate_where_an_authority_is_named(
    tmp_path: Path, authority: Identity, own: Identity
) -> None:
    clients = certify(tmp_path, "clients")
    known, stranger = certify(tmp_path, "known", clients), certify(tmp_path, "stranger", authority)
    authority_of_clients = ["--tls-client-ca", str(clients.cert_file)]
    with running(*options_of(own), *authority_of_clients) as address:
        answer = httpx.get(f"{address}/readyz", verify=trusting(authority, known))
        assert answer.status_code == 200
        for context in (trusting(authority), trusting(authority, stranger)):
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{address}/readyz", verify=context)


def test_wrong_files_of_tls_are_named(
    tmp_path: Path, own: Identity, authority: Identity, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = str(tmp_path / "nothing.pem")
    cert, key = str(own.cert_file), str(own.key_file)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        own.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    for options, field in (
        (["--tls-cert", cert], "tls_key"),
        (["--tls-key", key], "tls_key"),
        (["--tls-client-ca", cert], "tls_client_ca"),
        (["--tls-cert", nothing, "--tls-key", key], "tls_cert"),
        (["--tls-cert", cert, "--tls-key", str(authority.key_file)], "tls_cert"),
        (["--tls-cert", cert, "--tls-key", str(locked)], "tls_cert"),
        (["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", key], "tls_client_ca"),
    ):
        assert main(["serve", *options]) == 2
        errors = capsys.readouterr().err
        option = f"--{field.replace('_', '-')}"
        name = option if option in options else field
        assert errors.startswith(f"sfumato: error: {name}: "), (options, errors)
        assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(("proxies", "is_believed"), [("127.0.0.1", True), ("192.0.2.1", False)])
def test_forwarded_headers_are_believed_from_named_proxies_alone(
    proxies: str, is_believed: bool
) -> None:
    with running("--behind-proxy", "--proxies", proxies) as address:
        answer = httpx.get(f"{address}/healthz", headers={"X-Forwarded-Proto": "https"})
        assert ("strict-transport-security" in answer.headers) == is_believed


def test_forwarded_headers_are_not_believed_without_a_proxy() -> None:
    with running() as address:
        answer = httpx.get(f"{address}/healthz", headers={"X-Forwarded-Proto": "https"})
        assert "strict-transport-security" not in answer.headers


def test_a_proxy_is_named_by_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--behind-proxy", "--proxies", "*"]) == 2
    assert capsys.readouterr().err.startswith("sfumato: error: --proxies: ")

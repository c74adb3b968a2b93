"""Certificates for tests of TLS."""

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed_certificate(folder: Path) -> tuple[str, str]:
    """Return the files of a key and of a certificate for localhost that signs itself; skip without openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command = ["openssl", "req", *kind, "-keyout", key, "-out", certificate, *subject]
    subprocess.run(command, check=True, capture_output=True)
    return str(key), str(certificate)

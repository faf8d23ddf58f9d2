"""Certificates of a local cluster, so that only its own processes can connect to each other.

A Dask worker runs any function that it receives. Without certificates, all users of the machine could connect to it.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from typing import Any

from irrun.errors import InputError

__all__ = ["make_security"]

#: Prints the private key and the certificate of a new pair.
OPENSSL = (
    *("openssl", "req", "-x509", "-batch", "-nodes", "-newkey", "rsa:2048", "-sha256", "-days", "365"),
    *("-subj", "/CN=dask-internal", "-keyout", "/dev/stdout"),
)


def make_security() -> Any:
    """Return the security of a new cluster: TLS with a key that exists only in the memory of its processes.

    Raises:
        InputError: Neither the library cryptography nor the program openssl can create a key.
    """
    import distributed

    library: Any = distributed
    if importlib.util.find_spec("cryptography") is not None:
        return library.Security.temporary()
    try:
        pair = subprocess.run(OPENSSL, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
        key, certificate = (_find_block(pair, label) for label in ("(?:RSA |EC )?PRIVATE KEY", "CERTIFICATE"))
    except (OSError, ValueError, subprocess.SubprocessError):
        raise InputError(
            "a local cluster needs a key, to prevent other users from running code in it, and cryptography is not "
            "installed: pip install 'irrun[dask]', or pass the address of a scheduler"
        ) from None
    roles = {f"tls_{role}_{kind}": text for role in ("client", "scheduler", "worker")
             for kind, text in (("key", key), ("cert", certificate))}  # fmt: skip
    return library.Security(require_encryption=True, tls_ca_file=certificate, **roles)


def _find_block(text: str, label: str) -> str:
    """Return the block of a PEM file with a label.

    Raises:
        ValueError: The block does not exist.
    """
    block = re.search(f"-----BEGIN {label}-----.*?-----END {label}-----\n", text, re.DOTALL)
    if block is None:
        raise ValueError(label)
    return block.group()

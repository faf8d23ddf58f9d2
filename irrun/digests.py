"""SHA-256 without OpenSSL, which the module hashlib loads: that takes several milliseconds."""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]  # before Python 3.12
    except ImportError:
        from hashlib import sha256

__all__ = ["make_digest", "sha256"]


def make_digest(text: str) -> str:
    """Return the digest of a text in hexadecimal."""
    digest: str = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return digest

"""Signs packs with Ed25519: an in-toto statement about every file, in a DSSE envelope.

DSSE: https://github.com/secure-systems-lab/dsse; in-toto Statement v1:
https://github.com/in-toto/attestation. `cryptography` (extra `signing`) is needed only here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramwatt.collectors.common.files import replace_text, why
from gramwatt.service.packs.archive import CHECKSUMS, Files, PackError, digest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

SIGNATURE, PUBLIC_KEY = "signature.json", "signature.pub"
KEY_FILE, PUBLIC_FILE = "signing.key", "signing.pub"
"""The key pair in the home folder."""
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:gramwatt:disclosure-pack:1"
NEEDS = "signatures need the extra `signing`: pip install 'gramwatt[signing]'"


class KeyFileError(Exception):
    """A key file that cannot be used; the message is a sentence for people."""


def make_key(home: Path) -> Path:
    """Make the key pair of a home unless it has one; returns the file of the public key.

    Raises KeyFileError for a pair that cannot be used, OSError where none can be written, and
    ImportError without the extra.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = home / KEY_FILE, home / PUBLIC_FILE
    key = read_key(private)
    if key is None:
        key = Ed25519PrivateKey.generate()
        replace_text(private, _private_pem(key))
    public.write_text(_public_pem(key.public_key()), encoding="ascii")
    return public


def read_key(path: Path) -> Ed25519PrivateKey | None:
    """Return the private key in a file, None where there is no file; raises KeyFileError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise KeyFileError(f"{path} is no key to sign with: {why(error)}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} is no Ed25519 key")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Return the public key in a file; raises KeyFileError."""
    try:
        return _public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise KeyFileError(f"{path} is no public key: {why(error)}") from None


def signed(digests: Mapping[str, str], about: Any, key: Ed25519PrivateKey) -> dict[str, bytes]:
    """Return the envelope and the public key, as files of the pack with files of these digests."""
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": _subjects(digests),
        "predicateType": PREDICATE_TYPE,
        "predicate": about,
    }
    payload = json.dumps(statement, sort_keys=True).encode()
    public = key.public_key()
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {"keyid": key_id(public), "sig": base64.b64encode(key.sign(_pae(payload))).decode()}
        ],
    }
    text = json.dumps(envelope, indent=1) + "\n"
    return {SIGNATURE: text.encode(), PUBLIC_KEY: _public_pem(public).encode()}


def check_signature(files: Files, trusted: Ed25519PublicKey | None) -> str:
    """Return the id of the key that signed these files: the trusted one, else that in the pack.

    Raises PackError for a signature that does not hold, and ImportError without the extra.
    """
    from cryptography.exceptions import InvalidSignature

    try:
        key = trusted or _public_key(files[PUBLIC_KEY])
        envelope = json.loads(files[SIGNATURE])
        payload = base64.b64decode(envelope["payload"], validate=True)
        [signature] = envelope["signatures"]
        key.verify(base64.b64decode(signature["sig"], validate=True), _pae(payload))
        statement = json.loads(payload)
        fits = statement["subject"] == _subjects(files.digests)
        fits = fits and statement["_type"] == STATEMENT_TYPE
    except InvalidSignature:
        whose = "this key" if trusted else "the key in the pack"
        raise PackError(SIGNATURE, f"was not made with {whose}, or was altered") from None
    except (LookupError, TypeError, ValueError, RecursionError):
        raise PackError(SIGNATURE, "is no signature of a pack") from None
    if not fits or envelope.get("payloadType") != PAYLOAD_TYPE:
        raise PackError(SIGNATURE, "is that of other files")
    return key_id(key)


def key_id(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of the public key's 32 bytes, as hexadecimal text."""
    return digest(key.public_bytes_raw())


def _subjects(digests: Mapping[str, str]) -> list[dict[str, Any]]:
    names = sorted(digests.keys() - {CHECKSUMS, SIGNATURE, PUBLIC_KEY})
    return [{"name": name, "digest": {"sha256": digests[name]}} for name in names]


def _pae(payload: bytes) -> bytes:
    """Return what DSSE signs: the payload with its type and both lengths."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _public_key(content: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = load_pem_public_key(content)
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("not an Ed25519 key")
    return key


def _private_pem(key: Ed25519PrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _public_pem(key: Ed25519PublicKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

"""Packs that are signed: an in-toto statement in a DSSE envelope, with Ed25519."""

from __future__ import annotations

import base64
import json
import stat
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from gramwatt.service.packs.archive import PackError
from tests.service.cli.command import gramwatt
from tests.service.packs.forge import members, sealed, verify


@pytest.fixture
def signed_pack(world: Path) -> bytes:
    """The pack of job-1, signed with a key of the home; the home has none afterwards."""
    code, out, err = gramwatt("key", "signing")
    assert (code, out, err) == (0, f"{world}/home/signing.pub\n", "")
    assert gramwatt("export", "pack", "job-1", "-o", "signed.zip")[0] == 0
    (world / "signing.pub").write_bytes((world / "home" / "signing.pub").read_bytes())
    private = world / "home" / "signing.key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    private.unlink()
    return (world / "signed.zip").read_bytes()


def test_the_envelope_is_dsse_over_every_file(signed_pack: bytes) -> None:
    """Checked with the words of the DSSE specification, not with our own functions."""
    files = members(signed_pack)
    envelope = json.loads(files["signature.json"])
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    assert kind == "application/vnd.in-toto+json"
    signed = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    key = load_pem_public_key(files["signature.pub"])
    [signature] = envelope["signatures"]
    key.verify(base64.b64decode(signature["sig"]), signed)  # type: ignore[union-attr,call-arg]
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    stated = {row["name"]: row["digest"]["sha256"] for row in statement["subject"]}
    own = {"signature.json", "signature.pub", "checksums.txt"}
    assert stated == {n: sha256(c).hexdigest() for n, c in files.items() if n not in own}


def test_a_signed_pack_verifies_with_the_signers_key(signed_pack: bytes, world: Path) -> None:
    code, out, err = gramwatt("verify", "signed.zip", "--key", "signing.pub")
    assert (code, err) == (0, "")
    assert "equal        every file is signed with the key " in out
    assert "could have written" not in out
    code, out, _ = gramwatt("verify", "signed.zip")
    assert code == 0
    said = "Whose key signed it was not checked (give the signer's with --key), so that anybody"
    assert said in out.partition("To be believed: ")[2]


def test_another_key_and_no_signature_fail(signed_pack: bytes, pack: bytes, world: Path) -> None:
    other = Ed25519PrivateKey.generate().public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (world / "other.pub").write_bytes(pem)
    code, _, err = gramwatt("verify", "signed.zip", "--key", "other.pub")
    assert code == 1
    assert err.endswith("signature.json: was not made with this key, or was altered\n")
    (world / "plain.zip").write_bytes(pack)
    code, _, err = gramwatt("verify", "plain.zip", "--key", "signing.pub")
    assert (code, err.endswith("signature.json: is missing: the pack is not signed\n")) == (1, True)
    code, _, err = gramwatt("verify", "signed.zip", "--key", "FR.csv")
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = gramwatt("verify", "signed.zip", "--key", "none.pub")
    said = "gramwatt: none.pub is no public key: No such file or directory\n"
    assert (code, err) == (2, said)


def test_a_forgery_with_fitting_checksums_does_not_fit_the_signature(signed_pack: bytes) -> None:
    files = members(signed_pack)
    for name in sorted(files.keys() - {"signature.json", "signature.pub", "checksums.txt"}):
        with pytest.raises(PackError, match="signature.json: is that of other files"):
            verify(sealed({**files, name: files[name] + b" "}))
    with pytest.raises(PackError, match="signature.json: is that of other files"):
        verify(sealed({**files, "more.txt": b""}))


@pytest.mark.parametrize(
    "content", [b"{}", b"[]", b"[" * 100_000, b'{"payload": "!", "signatures": [{}]}', b"\xff"]
)
def test_what_is_no_envelope_is_refused(signed_pack: bytes, content: bytes) -> None:
    with pytest.raises(PackError, match=r"signature\.json: is no signature of a pack"):
        verify(sealed({**members(signed_pack), "signature.json": content}))


def test_the_key_stays_when_it_is_asked_for_again(world: Path) -> None:
    assert gramwatt("key", "signing")[0] == 0
    private = world / "home" / "signing.key"
    before = private.read_bytes()
    assert gramwatt("key", "signing")[0] == 0
    assert private.read_bytes() == before
    private.write_text("no key")
    for line in (("key", "signing"), ("export", "pack", "job-1")):
        code, _, err = gramwatt(*line)
        assert (code, err.count("\n")) == (1, 1)
        assert "signing.key is no key to sign with" in err
    private.unlink()

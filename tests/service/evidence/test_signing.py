"""Bundles that are signed: Ed25519 over the file of sums."""

from __future__ import annotations

import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from gramwatt.service.evidence import SIGNATURE, SUMS
from tests.service.cli.command import gramwatt
from tests.service.evidence.forge import members, sealed, verify


@pytest.fixture
def signed(world):
    """The bundle of job-1, signed with a key of the home; the home has none afterwards."""
    code, out, err = gramwatt("evidence", "key")
    assert (code, out, err) == (0, f"{world}/home/signing.pub\n", "")
    assert gramwatt("evidence", "export", "job-1", "-o", "signed.zip")[0] == 0
    (world / "signing.pub").write_bytes((world / "home" / "signing.pub").read_bytes())
    private = world / "home" / "signing.key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    private.unlink()
    return (world / "signed.zip").read_bytes()


def test_the_signature_is_ed25519_over_the_sums(signed, world):
    """Checked without our own functions, as `openssl pkeyutl -verify -rawin` does."""
    files = members(signed)
    key = load_pem_public_key((world / "signing.pub").read_bytes())
    key.verify(files[SIGNATURE], files[SUMS])  # type: ignore[union-attr,call-arg]
    assert len(files[SUMS].splitlines()) == len(files) - 2


def test_a_signed_bundle_verifies_with_the_signers_key(signed, world):
    code, out, err = gramwatt("evidence", "verify", "signed.zip", "--key", "signing.pub")
    assert (code, err) == (0, "")
    assert "equal        sha256sums is signed with this key\n" in out
    assert "could have written" not in out
    code, out, _ = gramwatt("evidence", "verify", "signed.zip")
    assert code == 0
    assert "it is signed, and not checked with whose key: give that with --key" in out


def test_another_key_and_no_signature_fail(signed, bundle, world):
    def refused(file: str, key: str) -> tuple[int, str]:
        code, _, err = gramwatt("evidence", "verify", file, "--key", key)
        return code, err

    other = Ed25519PrivateKey.generate().public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (world / "other.pub").write_bytes(pem)
    said = (
        "signed.zip does not verify: sha256sums.sig: was not made with this key, or was altered\n"
    )
    assert refused("signed.zip", "other.pub") == (1, f"gramwatt: {said}")
    (world / "plain.zip").write_bytes(bundle)
    said = "plain.zip does not verify: sha256sums.sig: is missing: the bundle is not signed\n"
    assert refused("plain.zip", "signing.pub") == (1, f"gramwatt: {said}")
    code, err = refused("signed.zip", "FR.csv")
    assert (code, err.count("\n")) == (2, 1)
    said = "gramwatt: none.pub is not a valid public key: No such file or directory\n"
    assert refused("signed.zip", "none.pub") == (2, said)


def test_a_forgery_with_fitting_sums_does_not_fit_the_signature(signed, world):
    files = members(signed)
    line = ("evidence", "verify", "forged.zip", "--key", "signing.pub")
    for name in sorted(files.keys() - {SUMS, SIGNATURE}):
        (world / "forged.zip").write_bytes(sealed({**files, name: files[name] + b" "}))
        code, _, err = gramwatt(*line)
        assert (code, "sha256sums.sig: was not made with this key" in err) == (1, True)
    (world / "forged.zip").write_bytes(sealed({**files, SIGNATURE: b"x" * 64}))
    assert gramwatt(*line)[0] == 1
    assert verify(signed).trusted[2].startswith("The issuer, who is not named: it is signed")


def test_the_key_stays_when_it_is_asked_for_again(world):
    assert gramwatt("evidence", "key")[0] == 0
    private = world / "home" / "signing.key"
    before = private.read_bytes()
    assert gramwatt("evidence", "key")[0] == 0
    assert private.read_bytes() == before
    private.write_text("no key")
    for line in (("evidence", "key"), ("evidence", "export", "job-1")):
        code, _, err = gramwatt(*line)
        assert (code, err.count("\n")) == (1, 1)
        assert "signing.key is not a valid key to sign with" in err
    private.unlink()

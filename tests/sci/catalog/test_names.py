"""Look-up by name: exact, ambiguous with choices, or failed with close matches."""

import re
import subprocess
import sys

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.catalog.hardware import CpuFamily
from gramwatt.sci.catalog.names import Names
from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def test_every_id_name_and_alias_means_its_own_row(catalog):
    for part in catalog.all_hardware():
        for name in (part.id, part.name, *part.aliases):
            assert catalog.hardware(name) is part, name
    for cpu in catalog.all_cpus():
        for name in (cpu.id, cpu.name, *cpu.aliases):
            assert catalog.cpu(name) is cpu, name


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("RTX 4900", "nvidia-rtx-4090"),
        ("nvidia-a100-sxm4-81", "nvidia-a100-sxm4-80"),
        ("TPU v5x", "google-tpu-v5p"),
    ],
)
def test_near_misses_raise_with_close_matches(catalog, name, near):
    with pytest.raises(LookupFailed) as caught:
        catalog.hardware(name)
    assert not isinstance(caught.value, AmbiguousName)
    assert near in caught.value.close


@pytest.mark.parametrize("name", ["", "  ", "NVIDIA", "A41", "not a part"])
def test_what_means_nothing_is_never_matched(catalog, name):
    with pytest.raises(LookupFailed):
        catalog.hardware(name)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("H1OO", "nvidia-h100-pcie-80"),
        ("nvidia-h1OO", "nvidia-h100-pcie-80"),
        ("L4O", "nvidia-l40s"),
        ("V10O", "nvidia-v100-sxm2-16"),
        ("nvidia-l5", "nvidia-l4"),
        ("T5", "nvidia-t4"),
        ("Gaudi4", "intel-gaudi3"),
        ("RTX 409O", "nvidia-rtx-4090"),
    ],
)
def test_typing_errors_list_what_was_meant_and_never_resolve(catalog, name, first):
    with pytest.raises(LookupFailed) as caught:
        catalog.hardware(name)
    assert first in caught.value.close[:4]
    assert len(caught.value.close) <= 5


def test_a_name_like_nothing_has_no_candidates(catalog):
    for name in ("xyzzy", "", "?"):
        with pytest.raises(LookupFailed) as caught:
            catalog.hardware(name)
        assert caught.value.close == ()


def test_a_cpu_with_a_letter_for_a_digit_lists_the_cpu(catalog):
    with pytest.raises(LookupFailed) as caught:
        catalog.cpu("Xeon Platinum 848OC")
    assert caught.value.close[:2] == ("intel-xeon-platinum-8480c", "intel-xeon-platinum-8488c")


def test_names_of_cloud_metadata_count_letter_by_letter(catalog):
    """Google's nvidia-tesla-a100 is the 40 GB module; what a person calls Tesla A100 is not."""
    assert catalog.hardware("NVIDIA-tesla-a100 ").id == "nvidia-a100-sxm4-40"
    for name in ("NVIDIA Tesla A100", "NVIDIA A100 80GB"):
        with pytest.raises(AmbiguousName):
            catalog.hardware(name)


def test_one_name_for_two_ids_is_refused():
    with pytest.raises(ValueError, match="two ids"):
        Names("hardware", [("NVIDIA T4", "a"), ("tesla-t4", "b")])


def test_keys_drop_case_spaces_marks_and_leading_vendors():
    names = Names(
        "hardware", [("NVIDIA Tesla(R) T4", "t4"), ("8480+", "plus"), ("8480", "without")]
    )
    assert names.find("  nvidia t-4 ") == names.find("T4 Tensor Core GPU") == "t4"
    assert (names.find("8480+"), names.find("8480")) == ("plus", "without")


@pytest.mark.parametrize(
    ("name", "cpu"),
    [
        ("AMD EPYC 7763 64-Core Processor", "amd-epyc-7763"),
        ("epyc 7763", "amd-epyc-7763"),
        ("Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", "intel-xeon-platinum-8358"),
        ("Intel(R) Xeon(R) Platinum 8480+", "intel-xeon-platinum-8480plus"),
        ("Intel(R) Xeon(R) Platinum 8480C", "intel-xeon-platinum-8480c"),
        ("INTEL(R) XEON(R) PLATINUM 8570", "intel-xeon-platinum-8570"),
    ],
)
def test_cpu_names_as_linux_writes_them(catalog, name, cpu):
    assert catalog.cpu(name).id == cpu


def test_a_cpu_that_is_not_there_is_answered_with_its_family(catalog):
    with pytest.raises(LookupFailed, match="27 processors of its family .* 8 to 192 cores") as why:
        catalog.cpu("AMD EPYC 9B45")
    assert "125 to 500 W" in (why.value.reason or "")
    assert {catalog.cpu(one).architecture for one in why.value.close} == {"Zen 5 Turin"}
    with pytest.raises(LookupFailed, match="it is a processor, not an accelerator"):
        catalog.hardware("AMD EPYC 9B45")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("1g.10gb", "is a MIG slice of a board"),
        ("10de:ffff", "is a PCI id that the catalog does not have"),
        ("Quadro 6000", None),
        ("A100-SXM-64GB", None),
    ],
)
def test_what_the_catalog_lacks_is_unknown_and_says_what_to_do(catalog, name, says):
    with pytest.raises(LookupFailed, match=says) as why:
        catalog.hardware(name)
    assert not isinstance(why.value, AmbiguousName)


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("GN10Xp.2XLARGE40", "Tencent Cloud"),
        ("p2s.2xlarge.8", "Huawei Cloud"),
        ("ecs.pni2.28xlarge", "Volcengine"),
        ("bcc.gn5.c12m44.1p40", "Baidu AI Cloud"),
        ("ecs.ebmgn7e.32xlarge", "Alibaba Cloud"),
    ],
)
def test_a_machine_of_another_provider_says_so(catalog, name, provider):
    with pytest.raises(LookupFailed, match=f"is a machine of {provider}, which the catalog"):
        catalog.instance(name)


def test_every_family_has_its_example_and_its_members(catalog):
    """No processor of the catalog is taken for one of another family."""
    families = list(rows(CpuFamily))
    for row in families:
        with pytest.raises(LookupFailed, match=re.escape(f"({row.family})")):
            catalog.cpu(row.example)
    for cpu in catalog.all_cpus():
        members, _ = catalog.cpu_family(cpu.name)
        architectures = {one.architecture for one in members}
        assert not members or cpu.architecture in architectures, cpu.id


def test_every_cpu_that_is_asked_as_hardware_is_named_as_one(catalog):
    for cpu in catalog.all_cpus():
        for name in (cpu.id, cpu.name, *cpu.aliases):
            with pytest.raises(LookupFailed, match=f"catalog cpus` has {cpu.id}"):
                catalog.hardware(name)


def test_a_core_that_two_cpus_share_is_ambiguous(catalog):
    with pytest.raises(AmbiguousName) as caught:
        catalog.cpu("Neoverse-V2")
    assert list(caught.value.choices) == ["aws-graviton4", "nvidia-grace"]


def test_an_unknown_cpu_is_named_as_it_was_written(catalog):
    name = "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz"
    with pytest.raises(LookupFailed, match=r"i7-8700 CPU @ 3\.20GHz"):
        catalog.cpu(name)


def test_the_catalog_needs_neither_toml_nor_difflib_to_load():
    """Both cost milliseconds that a job's start should not pay."""
    code = (
        "import sys; from gramwatt.sci.catalog.catalog import load_catalog; "
        "load_catalog().hardware('t4');"
        "print([m for m in ('tomllib', 'difflib', 'pandas', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

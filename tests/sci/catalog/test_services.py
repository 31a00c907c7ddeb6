"""Every name of hardware, instance family and service in the four texts the product began from.

The left column is how the text writes it, the right one what the catalog answers. Where the text is
wrong about a part (a T4 in NVv3, 417 TFLOPS per watt), the catalog has the right figure.
"""

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed

A100 = tuple(f"nvidia-a100-{form}" for form in ("sxm4-40", "sxm4-80", "pcie-40", "pcie-80"))
H100 = ("nvidia-h100-sxm5-80", "nvidia-h100-pcie-80", "nvidia-h100-nvl-94")
V100 = tuple(f"nvidia-v100-{form}" for form in ("sxm2-16", "pcie-16", "sxm2-32", "pcie-32"))
APPLE = tuple(
    f"apple-{chip}{form}"
    for chip, forms in (("m1", 4), ("m2", 4), ("m3", 4), ("m4", 3), ("m5", 3))
    for form in ("", "-pro", "-max", "-ultra")[:forms]
)
TPUS = tuple(
    f"google-tpu-{version}" for version in ["v2", "v3", "v4", "v5e", "v5p", "v6e", "v7", "8t", "8i"]
)
TRAINIUM = ("aws-trainium1", "aws-trainium2", "aws-trainium3")
EXPORT = ("nvidia-h800-sxm5-80", "nvidia-h800-pcie-80", "nvidia-h20", "nvidia-h20-141")
MI300 = ("amd-mi300a", "amd-mi300x")
ADA = tuple(
    part.id for part in load_catalog().all_hardware() if part.architecture == "Ada Lovelace"
)
HARDWARE = [
    # text 000
    ("H100", H100),
    ("B200", "nvidia-b200"),
    ("L4", "nvidia-l4"),
    ("L4s", ()),
    ("Inferentia2", "aws-inferentia2"),
    ("A100", A100),
    ("RTX 4090", "nvidia-rtx-4090"),
    ("Apple Neural Engine", APPLE),
    ("Qualcomm NPU", "qualcomm-hexagon-npu"),
    ("Apple Silicon", APPLE),
    ("TPU", (*TPUS, "google-coral-edge-tpu")),
    ("AMD MI300X", "amd-mi300x"),
    ("AWS Trainium", TRAINIUM),
    ("TPU v5p", "google-tpu-v5p"),
    # text 001
    ("RTX 3090", "nvidia-rtx-3090"),
    ("Quadro RTX 8000", "nvidia-quadro-rtx-8000"),
    ("Quadro RTX", tuple(f"nvidia-quadro-rtx-{number}" for number in (6000, 8000, 4000, 5000))),
    ("Nvidia A100", A100),
    ("Tesla V100", V100),
    ("Tesla A100", A100),
    ("M60", "nvidia-m60"),
    ("T4", "nvidia-t4"),
    ("A10G", "nvidia-a10g"),
    ("A10", "nvidia-a10"),
    ("A10 Tesnor", "nvidia-a10"),
    ("Tesla M60", "nvidia-m60"),
    ("T4 GPU", "nvidia-t4"),
    ("AMD Radeon PRO V620", "amd-v620"),
    ("Tesla K80 GPU", "nvidia-k80"),
    ("A100 Tensor Core GPU", A100),
    ("Tesla K80", "nvidia-k80"),
    ("Tesla T4", "nvidia-t4"),
    ("Tesla V100 GPU", V100),
    ("NVIDIA V100", V100),
    # text 002
    ("H200", "nvidia-h200-sxm"),
    (
        "Hopper",
        (
            *H100,
            "nvidia-h200-sxm",
            "nvidia-gh200-96",
            "nvidia-gh200-144",
            "nvidia-h200-nvl",
            *EXPORT,
        ),
    ),
    ("L40S", "nvidia-l40s"),
    ("Ada Lovelace", ADA),
    ("RTX 6000 Ada", "nvidia-rtx-6000-ada"),
    ("MI300X", "amd-mi300x"),
    ("MI300", MI300),
    ("MI250", "amd-mi250"),
    (
        "AMD MI-series",
        (
            "amd-mi25",
            "amd-mi210",
            "amd-mi250",
            "amd-mi250x",
            *MI300,
            "amd-mi325x",
            "amd-mi355x",
            "amd-mi350x",
        ),
    ),
    ("Gaudi2", "intel-gaudi2"),
    ("Gaudi3", "intel-gaudi3"),
    ("Intel Gaudi", ("intel-gaudi1", "intel-gaudi2", "intel-gaudi3")),
    ("TPU v5e", "google-tpu-v5e"),
    ("Trainium (Trn1)", "aws-trainium1"),
    ("Trainium", TRAINIUM),
    ("Trn1", "aws-trainium1"),
    ("Inferentia2 (Inf2)", "aws-inferentia2"),
    ("Inf2", "aws-inferentia2"),
    ("Cerebras WSE-3", "cerebras-wse3"),
    ("SambaNova DataScale", ("sambanova-sn30", "sambanova-sn40l")),
    ("SambaNova", ("sambanova-sn30", "sambanova-sn40l")),
    ("P100", ("nvidia-p100-pcie-16", "nvidia-p100-sxm2-16", "nvidia-p100-pcie-12")),
    # text 003
    ("A100 (80GB)", ("nvidia-a100-sxm4-80", "nvidia-a100-pcie-80")),
    ("V100", V100),
    ("K80", "nvidia-k80"),
    ("Google TPU", (*TPUS, "google-coral-edge-tpu")),
    ("Coral TPU", "google-coral-edge-tpu"),
    ("Coral", "google-coral-edge-tpu"),
]
"""Names of parts: one id, the choices of a name that is asked back, or () for a misspelt one."""
FAMILIES = [
    ("Amazon EC2 P3", ("p3", "p3dn"), ("nvidia-v100-sxm2-16", "nvidia-v100-sxm2-32")),
    ("Amazon EC2 P4", ("p4d", "p4de"), ("nvidia-a100-sxm4-40", "nvidia-a100-sxm4-80")),
    ("Amazon EC2 G3", ("g3", "g3s"), ("nvidia-m60",)),
    ("Amazon EC2 G4", ("g4dn", "g4ad"), ("nvidia-t4", "amd-v520")),
    ("Amazon EC2 G5", ("g5",), ("nvidia-a10g",)),
    ("NV Series VM", ("NV (v1)",), ("nvidia-m60",)),
    ("NVv3 Series", ("NVv3",), ("nvidia-m60",)),
    ("NCasT4_v3-series", ("NCasT4_v3",), ("nvidia-t4",)),
    ("NVadsA10 v5Series", ("NVadsA10_v5",), ("nvidia-a10",)),
    ("N1 Standard NV", ("N1 with attached GPU",), ("nvidia-k80", "nvidia-p4", "nvidia-t4")),
    ("A2 Standard NV", ("A2 Standard",), ("nvidia-a100-sxm4-40",)),
    ("G2-standard-NV", ("G2",), ("nvidia-l4",)),
    ("TPU v5p pod", ("TPU v5p slice",), ("google-tpu-v5p",)),
    ("TPU Pod", ("TPU v5e slice", "TPU v5p slice"), ("google-tpu-v5e", "google-tpu-v5p")),
    ("Snowpark", ("Snowpark Container Services compute pool",), ("nvidia-a10g",)),
    ("Google Colab", ("Colab runtime",), ("nvidia-k80", "nvidia-t4", "nvidia-v100-sxm2-16")),
]
"""Families of instances: whose members answer, and parts that are among them."""
RUNS_ON = [
    ("Amazon SageMaker", "aws:p4d.24xlarge", "ml.p4d.24xlarge"),
    ("AWS GPU Powered Services", "aws:g5.xlarge", "instance type"),
    ("Azure Machine Learning", "azure:Standard_NC4as_T4_v3", "virtual machines"),
    ("Azure ML", "azure:Standard_NC4as_T4_v3", "virtual machines"),
    ("Azure Data Bricks", "azure:Standard_NC6s_v3", "cluster"),
    ("Databricks", "azure:Standard_NC6s_v3", "cluster"),
    ("Azure Nvidia GPU", "azure:Standard_NV6", "VM size"),
    ("GCP NVIDIA GPU", "gcp:g2-standard-4", "machine type"),
    ("Google Colab GPU", "google-colab:colab-t4", "only at run time"),
    ("Snowflake LLM container Service", "snowflake:GPU_NV_M", "compute pools"),
    ("Snowpark Container Service", "snowflake:GPU_NV_M", "compute pools"),
    ("SCS", "snowflake:GPU_NV_M", "compute pools"),
    ("AWS Custom Silicon", "aws:trn1.32xlarge", "Trainium and Inferentia"),
    ("Trainium clusters", "aws:trn1.32xlarge", "EC2"),
    ("NeuronSDK", "aws:inf2.xlarge", "software"),
    ("MLX", "apple-m1", "Apple silicon only"),
    ("Mac", "apple-m2", "whole machine"),
    ("TPUs", "google-tpu-v5e", "kind of hardware"),
    ("Google Cloud TPUs", "google-tpu-v5e", "kind of hardware"),
]
"""Names that are no hardware: one of the things they run on, and words of the reason."""
REFUSED = [
    ("AWS Elastic Graphic Service", "8 January 2024"),
    ("Elastic Graphics", "8 January 2024"),
    ("AWS DeepRacer", "model car"),
    ("DeepRacer", "model car"),
    ("Azure Streaming Analytics", "streaming units"),
    ("TensorFlow Lite", "phones"),
    ("TF Lite", "phones"),
    ("TFLite", "phones"),
    ("TensorFlow.js", "browser"),
    ("TFJS", "browser"),
    ("PyTorch", "software"),
    ("PyTorch/XLA", "software"),
    ("torch_xla", "software"),
    ("torch.compile", "software"),
    ("FSDP", "software"),
    ("JAX", "software"),
    ("XLA", "software"),
    ("TensorFlow", "software"),
    ("MXNet", "software"),
    ("CUDA", "software"),
    ("cuDNN", "software"),
    ("TensorRT", "software"),
    ("TensorRT-LLM", "software"),
    ("NeMO", "software"),
    ("Megatron-LM", "software"),
    ("ROCm", "software"),
    ("DeepSpeed", "software"),
    ("vLLM", "software"),
    ("Text Generation Inference", "software"),
    ("TGI", "software"),
    ("GPU", "kind of hardware"),
    ("NVIDIA GPUs", "kind of hardware"),
    ("AMD GPUs", "kind of hardware"),
    ("Intel GPUs", "kind of hardware"),
    ("consumer GPU", "kind of hardware"),
    ("RTX series", "series of cards"),
    ("CPU", "kind of hardware"),
    ("NPUs", "kind of hardware"),
    ("mobile accelerators", "kind of hardware"),
    ("cloud spot instances", "ways of paying"),
    ("Spot/Preemptible Instances", "ways of paying"),
    ("Reserved instances", "ways of paying"),
    ("TensorStream", "No TPU is known by this name"),
]
"""Names that are no hardware and that nothing can be said for, with words of the reason."""


@pytest.fixture
def catalog():
    return load_catalog()


@pytest.mark.parametrize(("name", "expected"), HARDWARE)
def test_parts(catalog, name, expected):
    if isinstance(expected, str):
        assert catalog.hardware(name).id == expected
    elif expected:
        with pytest.raises(AmbiguousName) as asked:
            catalog.hardware(name)
        assert sorted(asked.value.choices) == sorted(expected)
    else:
        with pytest.raises(LookupFailed) as failed:
            catalog.hardware(name)
        assert not isinstance(failed.value, AmbiguousName)


@pytest.mark.parametrize(("name", "families", "parts"), FAMILIES)
def test_families(catalog, name, families, parts):
    with pytest.raises(AmbiguousName) as asked:
        catalog.instance(name)
    members = [catalog.instance(one) for one in asked.value.choices]
    assert tuple(dict.fromkeys(member.family for member in members)) == families
    everyone = {one.id for one in catalog.all_instances() if one.family in families}
    assert {member.id for member in members} == everyone
    assert set(parts) <= {member.hardware for member in members}
    meant = catalog.resolution(name)
    assert "family of cloud instances" in meant.reason


@pytest.mark.parametrize(("name", "thing", "reason"), RUNS_ON)
def test_services_answer_with_what_they_run_on(catalog, name, thing, reason):
    meant = catalog.resolution(name)
    assert thing in (*meant.instances, *meant.hardware)
    assert reason in meant.reason
    with pytest.raises(LookupFailed) as failed:
        catalog.hardware(name)
    assert failed.value.close == meant.hardware
    assert failed.value.reason == meant.reason


@pytest.mark.parametrize(("name", "reason"), REFUSED)
def test_what_is_no_hardware_is_refused_with_the_reason(catalog, name, reason):
    for look_up in (catalog.hardware, catalog.instance):
        with pytest.raises(LookupFailed) as failed:
            look_up(name)
        assert reason in failed.value.message
        assert failed.value.close == ()


def test_the_one_cpu_among_the_gpus(catalog):
    assert catalog.cpu("AMD EPYC 7763").id == "amd-epyc-7763"
    with pytest.raises(LookupFailed):
        catalog.hardware("AMD EPYC 7763")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("Colab T4", "nvidia-t4"),
        ("ml.p4d.24xlarge", "nvidia-a100-sxm4-40"),
        ("Snowflake GPU_NV_M", "nvidia-a10g"),
        ("NCasT4_v3", "nvidia-t4"),
    ],
)
def test_an_instance_is_never_taken_for_one_part(catalog, name, part):
    """Eight A100 must not become one in silence: the answer names the part and asks back."""
    with pytest.raises(LookupFailed, match="ask for it as instance") as failed:
        catalog.hardware(name)
    assert failed.value.close == (part,)


def test_generations_that_the_texts_mix_up(catalog):
    """MI300X and MI300A are one generation, MI250 the one before; Gaudi is no GPU."""
    generation = {name: catalog.hardware(name).architecture for name in (*MI300, "amd-mi250")}
    assert generation == {
        "amd-mi300a": "CDNA 3 + Zen 4",
        "amd-mi300x": "CDNA 3",
        "amd-mi250": "CDNA 2",
    }
    classes = {
        name: catalog.hardware(name).device_class for name in ("Gaudi2", "Gaudi3", "H100 PCIe")
    }
    assert classes == {"Gaudi2": "accelerator", "Gaudi3": "accelerator", "H100 PCIe": "gpu"}


@pytest.mark.parametrize(
    ("part", "printed", "dense_fp16"),
    [("nvidia-l4", 30, 121), ("nvidia-l40s", 45, 362), ("nvidia-h100-sxm5-80", 60, 989)],
)
def test_tflops_per_watt_are_not_a_thousand_times_too_many(catalog, part, printed, dense_fp16):
    """The text prints 417, 129 and 86 for what its own numbers make 0.417, 0.129 and 0.086."""
    row = catalog.hardware(part)
    assert row.tdp_w is not None
    assert row.fp16_tensor_tflops == dense_fp16
    assert printed / row.tdp_w < dense_fp16 / row.tdp_w < 2


def test_memory_of_chips_that_one_text_puts_at_8_to_16_gb(catalog):
    memory = {
        name: catalog.hardware(f"TPU {name}").memory_gb for name in ("v2", "v3", "v5e", "v5p")
    }
    assert memory == {"v2": 16, "v3": 32, "v5e": 16, "v5p": 95}
    assert catalog.hardware("H200").memory_gb == 141
    assert catalog.hardware("K80").memory_gb == 12  # one of two devices of a board of 24

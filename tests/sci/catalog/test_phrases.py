"""Names within what tools print and people write: each kind of surroundings and of spelling.

A name that is right alone must be right in all of them, and a name that goes on must stay unknown.
"""

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.catalog.names import find_matches
from gramwatt.sci.catalog.slices import find_part
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed

CATALOG = load_catalog()

PARTS = {
    "NVIDIA A100-SXM4-80GB": "nvidia-a100-sxm4-80",
    "NVIDIA H100 PCIe": "nvidia-h100-pcie-80",
    "NVIDIA GeForce RTX 3090": "nvidia-rtx-3090",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "nvidia-rtx-4070-ti-super",
    "NVIDIA GeForce RTX 4060 Laptop GPU": "nvidia-rtx-4060-laptop",
    "NVIDIA RTX 6000 Ada Generation": "nvidia-rtx-6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "nvidia-rtx-pro-6000-server",
    "Tesla V100-SXM2-32GB": "nvidia-v100-sxm2-32",
    "AMD Instinct MI300X": "amd-mi300x",
    "AMD Radeon RX 7900 XTX": "amd-rx-7900-xtx",
    "Intel Arc B580": "intel-arc-b580",
}
SURROUNDINGS = [
    "GPU 3: {} (UUID: GPU-5e6b0b1a-7a43-1f3c-9be5-3a6fc1f2a7d1)",
    "0, {}, 550.54.15, 00000000:07:00.0",
    'gpu_name="{}"',
    "- **GPU:** {}",
    "| GPU | {} | 2 |",
    "|   0  {}          On  | 00000000:07:00.0 Off |                    0 |",
    "Device 0: {}, compute capability 8.0, VMM: yes",
    "_CudaDeviceProperties(name='{}', major=8, minor=0, total_memory=81050MB)",
    "ggml_vulkan: 0 = {} (radv) | uma: 0 | fp16: 1",
    "OpenGL renderer string: {}/PCIe/SSE2",
    "ANGLE (NVIDIA, {} (0x00002684) Direct3D11 vs_5_0 ps_5_0, D3D11)",
    "Tested with {}, driver 570.86 and CUDA 12.8 on Ubuntu 24.04",
    "a single {} with 128 GB of RAM and an AMD EPYC 7763",
    "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz + {}",
    "entraîné sur une carte {} pendant 12 h",
    "GPU models and configuration: GPU 0: {} GPU 1: {} Nvidia driver version: 535.129.03",
    "{} is what the benchmark ran on",
]
SPELLINGS = [
    str.lower,
    str.upper,
    lambda name: name.replace(" ", "-"),
    lambda name: name.replace(" ", "_").replace("-", "_"),
    lambda name: name.replace("-", " "),
    lambda name: name.replace(" ", "  "),
    lambda name: name.replace("NVIDIA ", "NVIDIA(R) ").replace("Radeon", "Radeon(TM)"),
    lambda name: name.replace("NVIDIA ", "").replace("AMD ", "").replace("Intel ", ""),
    lambda name: name.replace("RTX ", "RTX").replace("RX ", "RX"),
    lambda name: f"{name} GPU".replace("GPU GPU", "GPU"),
]
OTHERS = [
    *(
        "RTX 3090 Super",
        "A100-Z",
        "GeForce FX 5700",
        "GeForce 6800 XT",
        "Quadro 6000",
        "TITAN Black",
    ),
    *(
        "Radeon Pro 5700 XT",
        "GeForce GTX 780M",
        "FirePro M4000",
        "GM206GL [Tesla M4]",
        "ALADDiN-P4",
    ),
    *("AMD Ryzen 7 5700", "Titan Ridge 4C 2018", "Python 3090", "GeForce 6150 Go (rev a2)"),
]
MACHINES = {
    "8x {}": 8,
    "{} x 4": 4,
    "{} (x2)": 2,
    "a node with 8 {} GPUs and 2 TB of memory": 8,
    "Hardware: 1x {}, 24 CPU cores": 1,
    "four {} cards": 4,
    "single {} (RunPod)": 1,
}


def meaning(name):
    try:
        part, on_slice = find_part(CATALOG, name)
        return on_slice.id if on_slice else part.id
    except AmbiguousName as error:
        return ";".join(error.choices)
    except LookupFailed:
        return ""


@pytest.mark.parametrize("around", SURROUNDINGS)
def test_a_name_means_the_same_in_all_surroundings(around):
    assert {name: meaning(around.replace("{}", name)) for name in PARTS} == PARTS


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_name_means_the_same_in_all_spellings(spelled):
    assert callable(spelled)
    assert {name: meaning(spelled(name)) for name in PARTS} == PARTS


@pytest.mark.parametrize("name", OTHERS)
def test_a_name_that_is_anothers_or_goes_on_stays_unknown(name):
    assert meaning(name) == ""


@pytest.mark.parametrize("around", MACHINES)
def test_a_phrase_that_counts_a_part_is_a_machine(around):
    for name, part in PARTS.items():
        [machine], _ = find_matches(CATALOG.instance, around.replace("{}", name))
        assert (machine.hardware, machine.count) == (part, MACHINES[around])

"""Which devices of other vendors a job has: every variable, by its vendor's rules."""

from __future__ import annotations

import pytest

from gramwatt.collectors.devices.amd import visible as amd
from gramwatt.collectors.devices.board import Board, Visible
from gramwatt.collectors.devices.gaudi import visible as gaudi
from gramwatt.collectors.devices.neuron import visible as neuron

BOARDS = tuple(Board(n, f"GPU-{n}a5ff74a1000{n}", "AMD Instinct MI300X") for n in range(4))


def places(found: Visible) -> list[int]:
    return [item.board.ordinal for item in found.billed]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"ROCR_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-3a5f"}, [3]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"ROCR_VISIBLE_DEVICES": "-1"}, []),
        ({"HIP_VISIBLE_DEVICES": "1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "3"}, [3]),
        ({"GPU_DEVICE_ORDINAL": "0,3"}, [0, 3]),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "2"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"}, [3]),
        ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "2,3"}, [2, 3]),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "0,1"}, [0, 1]),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": ""}, []),
        ({"HIP_VISIBLE_DEVICES": "0,-1,2"}, [0]),
        ({"SLURM_JOB_GPUS": "1,2"}, [1, 2]),
        ({"AMD_VISIBLE_DEVICES": "all"}, [0, 1, 2, 3]),
        ({"AMD_VISIBLE_DEVICES": "0,1"}, [0, 1]),
        ({"AMD_VISIBLE_DEVICES": "1-2"}, [1, 2]),
        ({"AMD_VISIBLE_DEVICES": "4-6,9"}, [0, 1, 2, 3]),  # listed again from 0 in a container
        ({"AMD_VISIBLE_DEVICES": "0x3A5FF74A10003"}, [3]),
    ],
)
def test_amd_devices_of_the_job(environ, expected):
    assert places(amd(environ, BOARDS, ordered=True)) == expected


def test_an_index_that_is_no_device_bills_nothing_and_is_said():
    found = amd({"HIP_VISIBLE_DEVICES": "7"}, BOARDS, ordered=True)
    assert found.billed == ()
    assert found.remarks == (
        "HIP_VISIBLE_DEVICES names '7', which is not one device here; it is not billed.",
    )


def test_indices_without_hips_order_are_said_to_be_unsure():
    unsure = amd({"HIP_VISIBLE_DEVICES": "1"}, BOARDS, ordered=False)
    assert "HIP's order" in unsure.remarks[0]
    assert amd({"HIP_VISIBLE_DEVICES": "0,1,2,3"}, BOARDS, ordered=False).remarks == ()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"HABANA_VISIBLE_DEVICES": "all"}, [0, 1, 2, 3]),
        ({"HABANA_VISIBLE_DEVICES": "1,3"}, [1, 3]),
        ({"HABANA_VISIBLE_DEVICES": "4,5,6,7"}, [0, 1, 2, 3]),  # listed again from 0 in a container
        ({"HABANA_VISIBLE_MODULES": "2,7"}, [3, 0]),
        ({"HABANA_VISIBLE_MODULES": "2,2"}, [3]),
        ({"HABANA_VISIBLE_MODULES": "2", "HABANA_VISIBLE_DEVICES": "all"}, [3]),
        ({"HABANA_VISIBLE_MODULES": "all", "HABANA_VISIBLE_DEVICES": "0"}, [0]),
    ],
)
def test_gaudi_devices_of_the_job(environ, expected):
    modules = {board.uuid: module for board, module in zip(BOARDS, (7, 3, 5, 2), strict=True)}
    assert places(gaudi(environ, BOARDS, modules)) == expected


@pytest.mark.parametrize(
    ("environ", "cores", "expected"),
    [
        ({}, 2, {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}),
        ({"NEURON_RT_VISIBLE_CORES": "0-3"}, 2, {0: 1.0, 1: 1.0}),
        ({"NEURON_RT_VISIBLE_CORES": "1,2,7"}, 2, {0: 0.5, 1: 0.5, 3: 0.5}),
        ({"NEURON_RT_VISIBLE_CORES": "5"}, 8, {0: 0.125}),
        ({"NEURON_RT_VISIBLE_CORES": "90-99"}, 2, {}),
        ({"NEURON_RT_VISIBLE_CORES": "0"}, 0, {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}),
    ],
)
def test_neuron_cores_are_shares_of_devices(environ, cores, expected):
    found = neuron(environ, BOARDS, cores)
    assert {item.board.ordinal: item.share for item in found.billed} == expected


@pytest.mark.parametrize(
    "environ",
    [
        {"NEURON_RT_VISIBLE_CORES": "90"},
        {"NEURON_RT_VISIBLE_CORES": "zero"},
        {"NEURON_RT_NUM_CORES": "2"},
    ],
)
def test_neuron_cores_that_cannot_be_matched_are_said(environ):
    assert len(neuron(environ, BOARDS, 2).remarks) == 1

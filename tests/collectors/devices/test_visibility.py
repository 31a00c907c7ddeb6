from __future__ import annotations

import pytest

from gramwatt.collectors.devices.board import Board, MigSlice
from gramwatt.collectors.devices.nvml import visible

UUIDS = [f"GPU-{digit * 8}-0000-4000-8000-{n:012d}" for n, digit in enumerate("a1b2")]
BOARDS = [Board(n, uuid, "NVIDIA H100") for n, uuid in enumerate(UUIDS)]
SLICES = (MigSlice("MIG-11111111-aaaa", 3 / 7), MigSlice("MIG-22222222-bbbb", 4 / 7))
WITH_MIG = [Board(0, UUIDS[0], "NVIDIA A100", SLICES), *BOARDS[1:]]
MIXED = [*BOARDS[:3], Board(3, UUIDS[3], "NVIDIA T4")]


def billed(**environ: str) -> list[int]:
    return [item.board.ordinal for item in visible(environ, BOARDS).billed]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 3 ", [1, 3]),
        ("0 1", [0]),  # CUDA reads a number as far as it goes
        ("1gpu2,+2", [1, 2]),
        ("0x1", [0]),
        (UUIDS[2], [2]),
        ("GPU-1111", [1]),
        ("GPU-B", [2]),
        (f"{UUIDS[3]},0", [3, 0]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,-1,1", [0]),
        ("0,1,,2", [0, 1]),
    ],
)
def test_cuda_visible_devices(value, expected):
    found = visible({"CUDA_VISIBLE_DEVICES": value}, BOARDS)
    assert [item.board.ordinal for item in found.billed] == expected
    assert found.remarks == ()


@pytest.mark.parametrize("value", ["0,0,1", "0,00", "1,0,1", f"{UUIDS[2]},{UUIDS[2]}", "2,GPU-b"])
def test_a_list_that_names_a_device_twice_names_none(value):
    selection = visible({"CUDA_VISIBLE_DEVICES": value}, BOARDS)
    assert selection.billed == ()
    assert "twice" in selection.remarks[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", []),
        ("0,7,1", [0]),  # CUDA itself stops at the first that is no device
        ("GPU-", []),
        ("GPU-ffff", []),
        ("MIG-11111111-aaaa", []),
        ("x1", []),
    ],
)
def test_what_is_not_there_is_said_and_never_billed(value, expected):
    found = visible({"CUDA_VISIBLE_DEVICES": value}, BOARDS)
    assert [item.board.ordinal for item in found.billed] == expected
    assert len(found.remarks) == 1
    assert "not billed" in found.remarks[0]


def test_a_mig_id_is_its_share_of_the_board():
    found = visible({"CUDA_VISIBLE_DEVICES": "MIG-2222"}, WITH_MIG)
    assert [(i.device_id, i.share, i.board.ordinal) for i in found.billed] == [
        ("MIG-22222222-bbbb", 4 / 7, 0)
    ]


def test_nothing_said_means_everything_the_driver_lists():
    assert billed() == [0, 1, 2, 3]
    assert visible({}, BOARDS).remarks == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("all", [0, 1, 2, 3]),
        ("void", [0, 1, 2, 3]),
        ("none", [0, 1, 2, 3]),  # the runtime gave none, but something did
        ("", [0, 1, 2, 3]),
        ("/var/run/nvidia-container-devices", [0, 1, 2, 3]),
        ("nvidia.com/gpu=all", [0, 1, 2, 3]),
        (f"runtime.nvidia.com/gpu={UUIDS[1]},runtime.nvidia.com/gpu=0", [1, 0]),
        (f"{UUIDS[1]},{UUIDS[2]},{UUIDS[1]}", [1, 2]),
        ("3", [3]),
        ("4,5,6,7", [0, 1, 2, 3]),  # the host's numbers, in a container that lists its four from 0
        ("4,5,6,7,7", [0, 1, 2, 3]),  # two of one board's time slices
    ],
)
def test_nvidia_visible_devices(value, expected):
    assert billed(NVIDIA_VISIBLE_DEVICES=value) == expected


def test_cuda_numbers_boards_in_mig_mode_behind_the_others():
    """kokkos #6529, datadog-agent #36377: a process that sees whole GPUs sees no slice."""
    mixed = [BOARDS[0]._replace(mig=True, slices=SLICES[:1]), *BOARDS[1:]]
    for entries, ordinals in (("0", [1]), ("2,0", [3, 1]), ("3", [0]), (UUIDS[0], [0])):
        result = visible({"CUDA_VISIBLE_DEVICES": entries}, mixed)
        assert [item.board.ordinal for item in result.billed] == ordinals
    assert visible({"NVIDIA_VISIBLE_DEVICES": "0"}, mixed).billed[0].board.ordinal == 0
    assert visible({"CUDA_VISIBLE_DEVICES": "0:0"}, mixed).billed[0].device_id == SLICES[0].uuid


@pytest.mark.parametrize("name", ["NVIDIA_VISIBLE_DEVICES", "SLURM_JOB_GPUS"])
@pytest.mark.parametrize("value", ["9", "0-3", "GPU-ffff", "MIG-1"])
def test_a_list_of_which_nothing_is_here_is_in_other_numbers_and_all_here_is_billed(name, value):
    result = visible({name: value}, BOARDS)
    assert [item.board.ordinal for item in result.billed] == [0, 1, 2, 3]
    assert result.remarks == (
        f"{name} names {value!r}, which no device here has; all of them are billed.",
    )


def test_fewer_than_cuda_can_use_are_said():
    assert "3 of the 4 GPUs" in visible({"NVIDIA_VISIBLE_DEVICES": "0,1,2"}, BOARDS).remarks[0]
    assert visible({"NVIDIA_VISIBLE_DEVICES": "0,1,2,3"}, BOARDS).remarks == ()


def test_slurm_numbers_files_whose_order_is_another():
    """On some AMD hosts /dev/nvidia0 is NVML's GPU 3 (jobstats #34)."""
    boards = [board._replace(minor=3 - board.ordinal) for board in BOARDS]
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        assert [item.board.ordinal for item in visible({name: "0,2"}, boards).billed] == [3, 1]
    assert len(visible({"SLURM_JOB_GPUS": "4"}, boards).remarks) == 1
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        assert [item.board.ordinal for item in visible({name: "0"}, boards).billed] == [0]


def test_a_slurm_job_that_names_no_gpu_says_what_it_bills():
    found = visible({"SLURM_JOB_ID": "1"}, BOARDS)
    assert (len(found.billed), len(found.remarks)) == (4, 1)


def test_an_index_among_different_models_is_sure_only_in_pci_order():
    unsure = visible({"CUDA_VISIBLE_DEVICES": "1"}, MIXED)
    assert [item.board.ordinal for item in unsure.billed] == [1]
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in unsure.remarks[0]
    sure = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert visible(sure, MIXED).remarks == ()
    assert visible({"CUDA_VISIBLE_DEVICES": "3,2,1,0"}, MIXED).remarks == ()
    assert visible({"CUDA_VISIBLE_DEVICES": UUIDS[3]}, MIXED).remarks == ()

"""Inputs of ranges have ids, short and stable: sums and comparisons of jobs know them by these."""

import msgspec

from gramwatt.sci.month.breakdown import components
from tests.sci.score.test_score import gpu_job, scored

METER, BOARD = "meter:nvml:measured", "NVIDIA H100 80GB HBM3"
OPERATIONAL = {
    *("grid:DE:2025", "grid:DE:2025@2026-05-01", "grid:DE:2025@usual", "pue:data-centre"),
    *(f"{METER}:GPU-1", f"{METER}:type:{BOARD}"),
}


def test_the_range_of_each_term_has_the_ids_of_its_inputs_and_the_method_lists_them():
    document = scored(gpu_job(pue=None))
    doc = msgspec.to_builtins(document)
    assert doc["operational_g"]["effects"].keys() == OPERATIONAL
    assert doc["embodied_g"]["effects"].keys() == {
        *("te:nvidia-pcf-hgx-h100", "embodied:gpu_host", "embodied:lifetime")
    }
    listed = {id_ for row in doc["method"]["inputs"] for id_ in row["ids"]}
    assert listed == {*OPERATIONAL, *doc["embodied_g"]["effects"]}
    # The electricity of the board has the inputs of its meter and of the grid, and not that of PUE.
    board = components(document)["operational", "gpu"]
    assert board.inputs.keys() == OPERATIONAL - {"pue:data-centre"}


def test_boards_of_one_type_share_the_error_of_their_design():
    first = scored(gpu_job())
    doc = msgspec.to_builtins(first)["energy_kwh"]["effects"]
    # Half of the variance is the board's own: equal effects.
    assert doc[f"{METER}:GPU-1"] == doc[f"{METER}:type:{BOARD}"]

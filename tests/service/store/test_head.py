"""What lists show of a job."""

import json

from gramwatt.service.store.documents import head_text
from tests.sci.score.test_score import gpu_job, scored


def test_lists_show_figures_without_what_moves_them():
    document = scored(gpu_job())
    head = json.loads(head_text(document))
    assert "effects" not in json.dumps(head)
    assert head["energy_kwh"]["value"] > 0

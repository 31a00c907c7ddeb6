"""Inputs that once broke a parser, and the valid ones that others are made of."""

from pathlib import Path

from tests.fuzz.targets import bundle_of_a_job, targets

KEPT = Path(__file__).parents[1] / "data" / "fuzz"


def test_no_kept_input_breaks_its_parser(tmp_path):
    with targets(tmp_path, bundle_of_a_job(tmp_path / "bundle")) as found:
        for name, target in found.items():
            for content in (*target.seeds, *(p.read_bytes() for p in KEPT.glob(f"{name}/*"))):
                target.run(content)
        assert {folder.name for folder in KEPT.iterdir() if folder.is_dir()} <= found.keys()

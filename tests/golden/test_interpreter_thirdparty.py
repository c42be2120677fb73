"""Recorded answers of bundled interpretations: every one is met, but those that would harm."""

from pathlib import Path

from tests.golden.run import load_runner

HERE = Path(__file__).parent
# Memory of a FlinkDeployment that Kubernetes would read as thousandths of a byte.
NOT_FOLLOWED = ["tp-0131", "tp-0132", "tp-0133", "tp-0152", "tp-0153", "tp-0154", "tp-0155", "tp-0156"]


def test_bundled_scripts_answer_as_recorded() -> None:
    runner = load_runner(HERE / "runners" / "interpreter_thirdparty.py")
    assert runner.run_file(HERE / "data" / "interpreter-thirdparty-dev.jsonl.gz") == (322, 314, NOT_FOLLOWED)

"""Faults of the machine: one clear line, a non-zero exit, nothing half-written."""

import pytest
from reliability.faults import FAULTS, meet


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line_and_leaves_nothing(name: str) -> None:
    counts, wrong = meet(name)
    if counts["skipped"]:
        pytest.skip("this machine does not let the test make the fault")
    assert wrong == [] and counts["met"]


class PanicException(BaseException):
    """As polars raises it where its Rust code gives up."""


@pytest.mark.parametrize(("limit", "code", "words"), [(2**30, 2, "out of memory"), (None, 3, "a defect")])
def test_a_panic_of_a_library(
    limit: int | None,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import replay.cli

    def give_up(arguments: list[str]) -> None:
        raise PanicException("could not spawn threads: ThreadPoolBuildError")

    monkeypatch.setattr(replay.cli, "_invoke", give_up)
    monkeypatch.setattr(replay.cli, "memory_limit", lambda: limit)
    assert replay.cli.main(["compare"]) == code
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"replay: error: {words}")

"""Faults of the machine: one clear line, a non-zero exit, nothing half-written."""

import errno

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
    monkeypatch.setattr(replay.cli.process, "memory_limit", lambda: limit)
    assert replay.cli.main(["compare"]) == code
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"replay: error: {words}")


@pytest.mark.parametrize(
    "problem",
    [
        ValueError("field 'target' is required for AnnAssign"),  # Python's own compiler, without memory
        OSError("Could not find/load shared object file 'libllvmlite.so'"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        SystemError("unknown opcode"),
    ],
)
def test_whatever_ends_a_command_under_a_limit_is_not_called_a_defect(
    problem: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import replay.cli

    def give_up(arguments: list[str]) -> None:
        raise problem

    monkeypatch.setattr(replay.cli, "_invoke", give_up)
    monkeypatch.setattr(replay.cli.process, "memory_limit", lambda: 2**30)
    assert replay.cli.main(["compare"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("replay: error: out of memory") and "ulimit -v" in told and told.count("\n") == 1


def test_a_file_is_not_called_broken_where_memory_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import replay.cli
    from replay.errors import InputError

    def give_up(arguments: list[str]) -> None:
        try:
            raise MemoryError
        except MemoryError:
            raise InputError("selections.parquet: cannot be read") from None

    monkeypatch.setattr(replay.cli, "_invoke", give_up)
    assert replay.cli.main(["compare"]) == 2
    assert capsys.readouterr().err.startswith("replay: error: out of memory")

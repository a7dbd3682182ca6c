"""What several test files share: recorded traces next to the project, the command line in process, the registry."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile("default-here", deadline=None, print_blob=True)
settings.register_profile("few", deadline=None, print_blob=True, max_examples=10)
settings.load_profile("default-here")

# whoever started the tests may ignore these (nohup, a shell's background), and what ignores a signal hands that on
for number, usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


class Outcome(NamedTuple):
    """What a run of the command line left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the project's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of recorded traces and specifications beside the project, or skip."""
    folder = ROOT.parent / "shared"
    if not (folder / "traces").is_dir():
        pytest.skip("no ../shared/traces beside the project: the recorded traces are not here")
    return folder


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Return a function that runs ``replay ARGUMENTS`` in this process."""
    from replay.cli import main

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(each) for each in arguments])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run


@pytest.fixture
def registry() -> Iterator[None]:
    """The registry of eviction policies as it was, afterwards: a policy file adds to it."""
    from replay import evict
    from replay.evict.own import OWN

    known, own = dict(evict.POLICIES), dict(OWN)
    yield
    for table, saved in ((evict.POLICIES, known), (OWN, own)):
        table.clear()
        table.update(saved)  # type: ignore[arg-type]

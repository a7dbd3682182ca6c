"""Every bad input is refused in one line, with exit code 2 and nothing left behind (see ``tests/reliability``)."""

from pathlib import Path

import pytest
from reliability.bad import Bad, faults
from reliability.bad_inputs import cases

CASES = cases()
pytestmark = pytest.mark.usefixtures("registry")


def test_there_are_enough() -> None:
    names = [(case.kind, case.name) for case in CASES]
    assert len(names) == len(set(names)) > 250
    kinds = {"trace", "spec", "budget", "clock", "policy file", "run", "recording", "import jsonl"}
    assert kinds <= {case.kind for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=[f"{case.kind}: {case.name[:60]}" for case in CASES])
def test_it_is_refused(case: Bad, tmp_path: Path) -> None:
    assert faults(case, tmp_path) == []

"""Faults of the machine: one clear line, a non-zero exit, nothing half-written."""

import pytest
from reliability.faults import FAULTS, meet


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line_and_leaves_nothing(name: str) -> None:
    counts, wrong = meet(name)
    if counts["skipped"]:
        pytest.skip("this machine does not let the test make the fault")
    assert wrong == [] and counts["met"]

"""A twentieth of two million windows, five evictions (``pytest -m bench``); REPLAY_LOAD_SCALE=20 is the whole."""

import os

import pytest
from reliability.loads import measure


@pytest.mark.bench
def test_load_is_held() -> None:
    found = measure(float(os.environ.get("REPLAY_LOAD_SCALE", "1")))
    print(found.markdown())
    assert found.wrong == []

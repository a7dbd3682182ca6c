"""The report of a wide run in a browser: how large, how soon there, how it fits narrow and wide windows."""

import json
from pathlib import Path

import pytest
from browser import driven, needs_browser

from replay.clock.timing import load_clock
from replay.comparison.comparison import compare
from replay.report import rendered
from replay.synth import Recipe, synthesize
from replay.trace import open_trace

SPECS = (
    "none+lru", "unpert1+lru", "unpert1+decode2q", "unpert0:b=0.4+lru", "none+lfuda", "none+sieve", "none+belady",
    "oracle+lru",
)  # fmt: skip
MOST_BYTES, MOST_SECONDS = 6_000_000, 2.0

OPENED = """
found.seconds = performance.now() / 1000;
found.requests = performance.getEntriesByType("resource").map((each) => each.name);
found.width = [document.documentElement.clientWidth, document.documentElement.scrollWidth];
found.outside = Array.from(document.querySelectorAll("body *"))
  .filter((each) => !each.closest(".scroll") && each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.tagName + ": " + each.textContent.slice(0, 40));
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The report of 8 policies on 48 layers, with curves, clocks, sessions, domains and prefill."""
    folder = tmp_path_factory.mktemp("wide")
    synthesize(
        folder / "trace",
        Recipe(layers=48, experts=64, sessions=8, windows=24, prompt=16, recall=0.8, domains=3),
    )
    trace = open_trace(folder / "trace")
    run = compare(trace, SPECS, clock=load_clock(None, trace.meta.io))
    assert len(run.summary) == 8 and not run.info["same_by_construction"]
    return rendered(run)["report.html"]


def test_it_is_small(page: bytes) -> None:
    assert len(page) < MOST_BYTES


@needs_browser
@pytest.mark.parametrize("width", [500, 900, 1440])
def test_it_opens_at_once_and_fits(page: bytes, width: int, tmp_path: Path) -> None:
    """A headless window is at least 500 wide; narrower ones are looked at in a frame, below."""
    found, said = driven(page, OPENED, tmp_path, f"--window-size={width},900")
    assert "CONSOLE" not in said
    assert found["seconds"] < MOST_SECONDS, f"shown after {found['seconds']:.1f} s"
    assert found["requests"] == []
    assert found["width"][1] <= found["width"][0] and found["outside"] == []


@needs_browser
def test_it_fits_a_phone(page: bytes, tmp_path: Path) -> None:
    (tmp_path / "inner.html").write_bytes(page)
    script = (
        "const inner = document.getElementById('inner').contentDocument.documentElement;"
        "found.width = [inner.clientWidth, inner.scrollWidth]"
    )
    frame = (
        '<!doctype html><body style="margin:0"><iframe id="inner" src="inner.html" width="390" height="900">'
    )
    found, _ = driven(f"{frame}</iframe></body>".encode(), script, tmp_path, "--allow-file-access-from-files")
    assert 300 < found["width"][1] <= found["width"][0] <= 390, json.dumps(found)

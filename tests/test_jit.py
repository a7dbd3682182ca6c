"""The first run says that it compiles; later ones have the kernels and say nothing."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

KERNEL = """
from numba import types
from replay.jit import kernel

@kernel(types.int64(types.int64))
def twice(x):
    return 2 * x

@kernel(types.int64(types.int64))
def thrice(x):
    return 3 * x

print(twice(21), thrice(14))
"""


def ran(file: Path, cache: Path, **more: str) -> tuple[str, str]:
    """What a program of two kernels prints, with kernels kept below a folder."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT), **more}
    done = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_an_empty_cache_is_said_once(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(KERNEL)
    out, err = ran(file, tmp_path / "cache", NUMBA_DISABLE_JIT="0")
    assert out == "42 42\n"
    assert err == "replay: compiling the kernels, once: about 20 seconds\n"
    assert ran(file, tmp_path / "cache", NUMBA_DISABLE_JIT="0") == ("42 42\n", "")


def test_without_the_compiler_there_is_nothing_to_say(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(KERNEL)
    assert ran(file, tmp_path / "cache", NUMBA_DISABLE_JIT="1") == ("42 42\n", "")

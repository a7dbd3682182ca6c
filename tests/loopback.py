"""A real Dask scheduler and worker processes on loopback."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def wait(until: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait for something to come true."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


@contextmanager
def loopback(
    folder: Path, workers: int = 2, environment: Mapping[str, str] | None = None
) -> Iterator[SimpleNamespace]:
    """A scheduler and its workers in a folder: ``address``, and the processes ``scheduler`` and ``workers``."""
    file = folder / "scheduler.json"
    python = [sys.executable, "-m"]
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    options = ["--nthreads", "1", "--no-nanny", "--local-directory"]
    commands = [[*python, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common]]
    commands += [
        [*python, "distributed.cli.dask_worker", *common, *options, str(folder / f"worker{i}")]
        for i in range(workers)
    ]
    started = [
        subprocess.Popen(
            each, stderr=subprocess.DEVNULL, env={**os.environ, **(environment or {})}, cwd=folder
        )
        for each in commands
    ]
    try:
        wait(lambda: file.is_file() and file.stat().st_size > 0)
        address = json.loads(file.read_text())["address"]
        yield SimpleNamespace(address=address, scheduler=started[0], workers=started[1:])
    finally:
        for each in started:
            each.kill()
            each.wait()

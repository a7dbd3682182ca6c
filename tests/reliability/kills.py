"""Kill -9 at random points of compare, import, record and sweep; what is left, and whether the work can go on.

After a kill the place of the output holds nothing, the old result as it was, or the new one, whole: never a part that
passes for one. The same command, started again, succeeds and tidies up; a recording is recovered as a prefix.
"""

import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from shutil import copytree, rmtree

from reliability.bad import run
from reliability.section import Section

SHARE = {"compare": 0.3, "compare --force": 0.2, "import": 0.2, "record": 0.2, "sweep": 0.1}
"""How the kills are spread over the commands."""

OLD, NEW, NOTHING, PART = "old", "new", "nothing", "part"


def digest(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Job(ABC):
    """One command that is killed, in a folder of its own.

    Attributes
    ----------
    folder, out : Path
        Where it works, and the place of its output.
    whole : dict
        What its output comes to where it is not killed.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.out = folder, folder / "out"
        self.prepare()
        began = time.monotonic()
        process = subprocess.run(self.command(), capture_output=True, check=False)
        assert process.returncode == 0, process.stderr
        self.seconds = time.monotonic() - began
        self.whole = self.look()
        self.clear()

    @abstractmethod
    def prepare(self) -> None:
        """Make the inputs."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that is killed."""

    @abstractmethod
    def look(self) -> object:
        """What the output comes to."""

    @abstractmethod
    def restart(self) -> list[str]:
        """Do what a user does after a kill; what is wrong with the outcome."""

    def begin(self) -> None:  # noqa: B027 (most have nothing to set up)
        """Set the place up before a run that is killed."""

    def clear(self) -> None:
        """Remove what a run left, but for inputs."""
        for path in self.folder.iterdir():
            if "out" in path.name:
                rmtree(path) if path.is_dir() else path.unlink()

    def state(self) -> str:
        """What the place holds: nothing, the new output whole, or a part of it."""
        if not self.out.exists():
            return NOTHING
        return NEW if self.look() == self.whole else PART

    def hidden(self) -> list[str]:
        """What lies beside the place."""
        return [path.name for path in self.folder.iterdir() if path.name.startswith(".")]


class Compare(Job):
    """``replay compare --out``: the tables that it wrote, charts and report aside."""

    force = False

    def prepare(self) -> None:
        made = run(["synth", self.folder / "trace", "--layers", 2, "--experts", 8, "--top-k", 2, "--sessions", 1,
                    "--windows", 20])  # fmt: skip
        assert made.code == 0, made.err

    def command(self) -> list[str]:
        return [sys.executable, "-m", "replay", *self.arguments()]

    def arguments(self) -> list[str]:
        given = [
            "compare",
            str(self.folder / "trace"),
            "-p",
            "none+lru",
            "--slots",
            "8",
            "--no-curves",
            "--no-clock",
        ]
        return [*given, "-q", "--out", str(self.out), *(["--force"] if self.force else [])]

    def look(self) -> object:
        import replay

        try:
            found = replay.load(self.out)
            names = sorted(path.name for path in self.out.iterdir())
            return (
                names,
                found.layers.to_dict(as_series=False),
                found.windows.to_dict(as_series=False),
                found.summary,
            )
        except Exception as problem:  # whatever a part of a run comes to
            return repr(problem)

    def restart(self) -> list[str]:
        if self.out.exists() and not self.force:
            return []
        again = run(self.arguments())
        if again.code or self.state() != NEW or self.hidden():
            return [
                f"started again: exit {again.code}, {self.state()}, left {self.hidden()}: {again.err[-300:]}"
            ]
        return []


class CompareForce(Compare):
    """``replay compare --out --force`` over an old run, which stays until the new one is whole."""

    force = True

    def begin(self) -> None:
        if not (self.folder / "kept").exists():
            given = [each if each != "none+lru" else "none+fifo" for each in self.arguments()]
            assert run([*given[:-1], "--force"]).code == 0
            self.old = digest(self.out)
            copytree(self.out, self.folder / "kept")
        else:
            copytree(self.folder / "kept", self.out)

    def state(self) -> str:
        if self.out.exists() and getattr(self, "old", None) == digest(self.out):
            return OLD
        return super().state()


class Import(Job):
    """``replay import jsonl``: a trace that validates is the whole one."""

    def prepare(self) -> None:
        trace, lines = self.folder / "trace", self.folder / "t.jsonl"
        made = run(
            ["synth", trace, "--layers", 8, "--experts", 32, "--top-k", 4, "--sessions", 2, "--windows", 100]
        )
        assert made.code == 0, made.err
        assert run(["export", "jsonl", trace, lines]).code == 0

    def arguments(self) -> list[str]:
        return ["import", "jsonl", str(self.folder / "t.jsonl"), str(self.out), "-q"]

    def command(self) -> list[str]:
        return [sys.executable, "-m", "replay", *self.arguments()]

    def look(self) -> object:
        checked = run(["validate", self.out])
        if checked.code:
            return checked.err
        return {
            name: each for name, each in digest(self.out).items() if name != "trace.json"
        }  # it has a date

    def restart(self) -> list[str]:
        again = run([*self.arguments(), "--force"])
        if again.code or self.state() != NEW or self.hidden():
            return [
                f"started again: exit {again.code}, {self.state()}, left {self.hidden()}: {again.err[-300:]}"
            ]
        return []


class Record(Job):
    """A recording's spool, window by window, and the trace made of it; what is left is recovered as a prefix."""

    SCRIPT = """
import sys, numpy as np, pyarrow as pa
from replay.recorder.spool import Spool
meta = {"model": {"name": "m", "layers": 4, "experts": 16, "top_k": 2}, "expert_bytes": 100}
meta |= {"router": None, "policy": None}
rng = np.random.default_rng(0)
spool = Spool(sys.argv[1], force=True)
for w in range(300):
    windows = pa.record_batch({"window": [w], "session": [0], "phase": ["decode"], "rows": [1]})
    picks = [rng.permutation(16)[:2].tolist() for _ in range(4)]
    lists = pa.record_batch({"window": [w] * 4, "row": [0] * 4, "layer": list(range(4)), "experts": picks})
    spool.write(meta, {"windows": windows, "selections": lists})
spool.finish(meta)
"""

    def prepare(self) -> None:
        pass

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.SCRIPT, str(self.out)]

    def look(self) -> object:
        checked = run(["validate", self.out])
        if checked.code:
            return checked.err
        return {
            name: each for name, each in digest(self.out).items() if name != "trace.json"
        }  # it has a date

    def restart(self) -> list[str]:
        """Recover the prefix: it validates, and its rows are the first of the whole recording."""
        partial = self.folder / "out.partial"
        if not partial.exists():
            return (
                []
                if self.out.exists() or self.state() == NOTHING
                else ["neither a trace nor a recording is left"]
            )
        found = run(["recover", partial, self.folder / "out-prefix"])
        if found.code == 0:
            return self._prefix(self.folder / "out-prefix")
        said = (
            "expected the folder NAME.partial",
            "no window was written whole",
            "expected streams",
            "not JSON",
        )
        known = found.code == 2 and found.err.count("\n") == 1 and any(each in found.err for each in said)
        return [] if known else [f"recover: exit {found.code}: {found.err[-300:]}"]

    def _prefix(self, path: Path) -> list[str]:
        import numpy as np

        from replay.trace import open_trace

        trace = open_trace(path)
        rng, picks = np.random.default_rng(0), []
        for _ in range(len(trace.windows)):
            picks += [rng.permutation(16)[:2] for _ in range(4)]
        read = np.concatenate([chunk.selections.values for chunk in trace.chunks(["selections"])])  # type: ignore[union-attr]
        return [] if np.array_equal(read, np.concatenate(picks)) else ["what was recovered is no prefix"]


class Sweep(Job):
    """``replay sweep``: each finished cell is whole; the same command goes on and ends with the same bytes."""

    def prepare(self) -> None:
        made = run(["synth", self.folder / "trace", "--layers", 2, "--experts", 8, "--top-k", 2, "--sessions", 1,
                    "--windows", 12])  # fmt: skip
        assert made.code == 0, made.err
        text = f'traces = [{json.dumps(str(self.folder / "trace"))}]\npolicies = ["none+lru"]\n'
        text += f'slots = {list(range(4, 17))}\nclocks = ["none"]\nseeds = {list(range(12))}\n'
        (self.folder / "grid.toml").write_text(text)

    def arguments(self) -> list[str]:
        return ["sweep", str(self.folder / "grid.toml"), "--out", str(self.out), "--threads", "1", "-q"]

    def command(self) -> list[str]:
        return [sys.executable, "-m", "replay", *self.arguments()]

    def look(self) -> object:
        return {
            name: each
            for name, each in digest(self.out).items()
            if name.endswith(".parquet") and "/." not in name
        }

    def state(self) -> str:
        if not self.out.exists():
            return NOTHING
        found, whole = self.look(), self.whole
        assert isinstance(found, dict) and isinstance(whole, dict)
        if any(whole.get(name) != each for name, each in found.items()):
            return PART
        return NEW if found == whole else NOTHING if not found else OLD  # old: some cells, each whole

    def restart(self) -> list[str]:
        again = run(self.arguments())
        if again.code or self.look() != self.whole:
            return [f"started again: exit {again.code}, other bytes: {again.err[-300:]}"]
        return []


JOBS: dict[str, type[Job]] = {
    "compare": Compare, "compare --force": CompareForce, "import": Import, "record": Record, "sweep": Sweep,
}  # fmt: skip


def kill_once(job: Job, rng: random.Random) -> tuple[str, list[str]]:
    """Run a job and kill it; what its place then holds, and what is wrong.

    Half of the kills come at a random time of the run, half a random moment after it began to write.
    """
    job.begin()
    begun = {path.name for path in job.folder.iterdir()}
    process = subprocess.Popen(job.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if rng.random() < 0.5:
            time.sleep(rng.uniform(0.1, 1.05) * job.seconds)
        else:
            while process.poll() is None and {path.name for path in job.folder.iterdir()} <= begun:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.5) ** 2 * job.seconds)
    finally:
        process.kill()
        process.wait()
    state = job.state()
    wrong = [f"{type(job).__name__}: a part is left that may pass for the whole"] if state == PART else []
    if isinstance(job, CompareForce) and state == NOTHING:
        wrong.append("CompareForce: the old run is gone")
    wrong += job.restart()
    job.clear()
    return state, wrong


def kill_all(kills: int, seed: int = 0) -> Section:
    """Kill so many runs, spread over the commands.

    Parameters
    ----------
    kills : int
    seed : int
        Of the moments.
    """
    rng, rows, wrong = random.Random(seed), [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, share in SHARE.items():
            job = JOBS[name](Path(folder) / name.replace(" ", ""))
            states: Counter[str] = Counter()
            for _ in range(max(1, round(kills * share))):
                state, found = kill_once(job, rng)
                states[state] += 1
                wrong += found
            left = ", ".join(f"{states[each]} {_WORDS[each]}" for each in (NOTHING, OLD, NEW) if states[each])
            rows.append((name, states.total(), left, states[PART], "yes" if not wrong else "no"))
    about = (
        "SIGKILL at random moments of a run, half of them while it writes. Afterwards the output's place holds "
        "nothing, what was there before (of a sweep: finished cells, each whole), or the new output, whole. The same "
        "command started again succeeds and leaves nothing beside; what a recording left is recovered as a prefix."
    )
    header = ("command", "kills", "left", "parts that pass for a whole", "goes on")
    return Section("Kills survived", about, header, rows, wrong)


_WORDS = {NOTHING: "nothing", OLD: "the old", NEW: "the new"}


def measure(scale: float) -> Section:
    """Kill 50 times at scale 1."""
    return kill_all(round(50 * scale))


def environment_kills() -> int:
    """Kills that the tests try: REPLAY_KILLS, else 50."""
    with contextlib.suppress(ValueError):
        return int(os.environ.get("REPLAY_KILLS", ""))
    return 50

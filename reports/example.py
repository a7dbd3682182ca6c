"""A worked example of ``import replay``: which read-ahead suits the sample, and what it does layer by layer.

Run it in the project's folder: ``python reports/example.py``. It prints its answers and writes a run's folder and a
chart into ``run-example``, or the folder that is its argument.
"""

import sys
from pathlib import Path

import polars as pl

import replay

SAMPLE = Path(__file__).resolve().parent.parent / "traces" / "e256-moce"


def main(out: Path) -> None:
    """Replay the sample, answer three questions from its frames, and keep what was found."""
    trace = replay.open(SAMPLE)
    print(trace)

    # policies side by side; every option of `replay compare` is a keyword
    policies = ["none+lru", "unpert1+lru", "unpert0+lru", "none+belady"]
    run = replay.compare(trace, policies, slots="17.6%", grid=(0.5, 1, 2), clock={"device_gbps": 3.0})
    print(run)

    # which policy waits least for its reads? `summary` has a dict a policy (belady is a bound: no engine can run it)
    best = min(
        (row for row in run.summary if "belady" not in row["policy"]),
        key=lambda row: row["wait_us_per_token"],
    )
    print(f"waits least: {best['policy']}, {best['wait_us_per_token']:,.0f} us a token")

    # which layers miss most? `layers`, `windows` and `curves` are polars frames
    mine = run.layers.filter(pl.col("policy") == "unpert0+lru", pl.col("phase") == "decode")
    print(mine.select("layer", "misses", "late").sort("misses", descending=True).head(5))

    # how far from the best that any eviction could do?
    misses = {row["policy"]: row["misses"] for row in run.summary}
    print(f"lru misses {misses['none+lru'] / misses['none+belady']:.2f} times what belady does")

    # charts are matplotlib Axes: in a notebook, the last line of a cell may be `axes.figure`
    axes = replay.plot_miss_curve(run)
    axes.set_title("e256-moce on a disk of 3 GB/s", loc="left")
    folder = run.save(out)
    replay.save_chart(axes, folder / "miss_curve_slow_disk.svg")

    # a saved run is the same run
    again = replay.load(folder)
    assert again.layers.equals(run.layers)
    print(f"written to {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "run-example"))

"""Every bad input there is, and how many of them were refused."""

import tempfile
from collections import Counter
from pathlib import Path

from reliability import bad_files, bad_imports, bad_specs, bad_traces
from reliability.bad import Bad, faults
from reliability.section import Section

MODULES = (bad_traces, bad_specs, bad_files, bad_imports)


def cases() -> list[Bad]:
    """All cases; no two have one kind and name."""
    return [case for module in MODULES for case in module.cases()]


def measure(scale: float) -> Section:
    """Try them all; ``scale`` plays no part."""
    tried: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wrong = []
    for case in cases():
        kind = case.kind.split()[0]
        tried[kind] += 1
        with tempfile.TemporaryDirectory() as folder:
            found = faults(case, Path(folder))
        refused[kind] += not found
        wrong += [f"{case.kind}: {case.name}: {each}" for each in found]
    rows = [(kind, f"{refused[kind]} of {tried[kind]}") for kind in sorted(tried)]
    rows.append(("all", f"{refused.total()} of {tried.total()}"))
    about = (
        "Damaged traces, specs, files and recordings, each given to the command line. Refused: exit code 2, one "
        "line on stderr that names what is wrong, nothing on stdout, no traceback, no file left or changed."
    )
    return Section("Bad inputs refused", about, ("kind", "refused"), rows, wrong)

"""Print the figures of reliability: ``python -m tests.reliability [SECTION ..] [--scale X] [--write]``."""

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "reports" / "reliability"

# name on the command line, and the module that has a function measure(scale) -> Section
SECTIONS = {
    "bad": "reliability.bad_inputs",
    "fuzz": "reliability.fuzz",
    "load": "reliability.loads",
    "kills": "reliability.kills",
    "faults": "reliability.faults",
}


def main() -> int:
    """Measure the sections that are asked for; exit code 1 where something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="how much of it: 1 is what the tests do")
    parser.add_argument("--write", action="store_true", help="keep the figures in reports/reliability/")
    given = parser.parse_args()
    unknown = [each for each in given.sections if each not in SECTIONS]
    if unknown:
        parser.error(f"no section is called {unknown[0]}; there are {', '.join(SECTIONS)}")
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    held = True
    for name in given.sections or SECTIONS:
        section = import_module(SECTIONS[name]).measure(given.scale)
        print(section.markdown(), flush=True)
        held &= not section.wrong
        if given.write:
            REPORT.mkdir(exist_ok=True)
            (REPORT / f"{name}.json").write_text(json.dumps(asdict(section), indent=1) + "\n")
    if given.write:
        _write_report()
    return 0 if held else 1


def _write_report() -> None:
    """Put the sections that are kept together into one page."""
    from reliability.section import Section

    parts = ["# Reliability\n\nWritten by `python -m tests.reliability --write`, section by section.\n"]
    for name in SECTIONS:
        file = REPORT / f"{name}.json"
        if file.is_file():
            parts.append(Section(**json.loads(file.read_text())).markdown())
    (REPORT / "README.md").write_text("\n".join(parts))


if __name__ == "__main__":
    sys.exit(main())

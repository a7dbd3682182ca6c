"""The layout: imports go one way, names say what they hold, nothing of a machine is tracked."""

import ast
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

# the data's way through the program: a module imports from its own room and those above it, never below
ROOMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ground", ("replay", "errors", "units", "amount", "argument", "document", "schema", "markup", "text")),
    ("declarations", ("declare",)),
    ("trace", ("trace", "importers", "exporters")),
    ("kernels", ("jit", "arena", "router", "stack", "fate", "clock")),
    ("recorder", ("recorder",)),
    ("policies", ("predict", "evict", "gate", "calibration", "spec", "retain")),
    ("engine", ("engine", "prepare", "lane")),
    ("counts", ("ledger",)),
    (
        "runs",
        (
            *("comparison", "survey", "learning", "run", "origin", "difference"),
            *("fidelity", "audit", "sweep", "query", "fit", "verdict", "budget", "synth", "frontier"),
        ),
    ),
    ("pictures", ("plot", "report", "chart")),
    ("front", ("front",)),
    ("talk", ("cli", "__main__")),
)
PLACE = {module: rank for rank, (_, modules) in enumerate(ROOMS) for module in modules}

# the ground floor imports nothing of ours, but for the units' errors
GROUND = {"errors": set(), "schema": set(), "units": {"errors"}}

HEAVY = {"numba", "llvmlite", "polars", "pyarrow", "duckdb", "matplotlib", "numpy", "scipy", "jinja2"}
TOP_LEVEL = {"pyproject.toml", "README.md", "LICENSE", "replay", "schemas", "traces", "reports", "tests"}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}


@cache
def modules() -> dict[str, ast.Module]:
    """Syntax trees of the package by dotted name without ``replay.``."""
    package = Path(__file__).resolve().parent.parent / "replay"
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "replay"
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def skipped(node: ast.AST, inside: bool) -> bool:
    """Whether a node's imports do not count: they never run, or run only when a function is called."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not inside


def import_nodes(tree: ast.AST, inside: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run: at module level only, or inside functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not skipped(node, inside):
            yield from import_nodes(node, inside)


def targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Absolute names that an import statement may load."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            yield f"{node.module}.{alias.name}"


def ours(name: str) -> str | None:
    """The module of this package that an absolute name is or lies in, without ``replay.``; None: not ours."""
    parts = name.split(".")
    if parts[0] != "replay":
        return None
    for end in range(len(parts), 1, -1):
        if ".".join(parts[1:end]) in modules():
            return ".".join(parts[1:end])
    return "replay"


def edges(inside: bool) -> dict[str, set[str]]:
    """For each module, the modules of ours that it imports."""
    found = {}
    for name, tree in modules().items():
        loaded = {ours(each) for node in import_nodes(tree, inside) for each in targets(node)}
        found[name] = {each for each in loaded if each is not None and each != name}
    return found


def room(module: str) -> int:
    head = module.partition(".")[0]
    assert head in PLACE, f"replay.{head} is in no room: give it its place in ROOMS"
    return PLACE[head]


def test_imports_go_one_way() -> None:
    wrong = [
        f"{name} ({ROOMS[room(name)][0]}) imports {other} ({ROOMS[room(other)][0]})"
        for name, others in edges(inside=True).items()
        for other in others
        if room(other) > room(name)
    ]
    assert not wrong, "; ".join(wrong)


def test_the_ground_floor_imports_nothing_of_ours() -> None:
    found = edges(inside=True)
    outside: dict[str, set[str]] = {name: set() for name in GROUND}
    for name, others in found.items():
        head = name.partition(".")[0]
        if head in outside:
            outside[head] |= {each for each in others if each.partition(".")[0] != head}
    assert outside == GROUND


def test_nothing_imports_the_command_line() -> None:
    wrong = [
        name
        for name, others in edges(inside=True).items()
        if not name.startswith(("cli", "__main__")) and any(each.split(".")[0] == "cli" for each in others)
    ]
    assert not wrong


def test_imports_have_no_cycle() -> None:
    """At module level; a package may import its own submodules."""
    found = edges(inside=False)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name in done:
            return
        for other in found[name]:
            visit(other, (*path, name))
        done.add(name)

    for name in found:
        visit(name, ())


def test_the_rule_sees_every_form_of_import() -> None:
    """The walk behind the rules above, on a tree that holds each form once."""
    tree = ast.parse(
        "import a\n"
        "from b import c, d\n"
        "if TYPE_CHECKING:\n    import hidden\n"
        "try:\n    import e\nexcept ImportError:\n    import f\n"
        "with x:\n    import g\n"
        "class C:\n    import h\n"
        "def k():\n    import i\n    if x:\n        import j\n"
        "match x:\n    case 1:\n        import m\n"
    )
    outer = ["a", "b.c", "b.d", "e", "f", "g", "h", "m"]
    assert sorted(each for node in import_nodes(tree, False) for each in targets(node)) == outer
    assert sorted(each for node in import_nodes(tree, True) for each in targets(node)) == sorted(
        [*outer, "i", "j"]
    )


@pytest.mark.parametrize(
    "light", ["cli", "errors", "units", "schema", "policy", "spec", "resolve", "switches"]
)
def test_nothing_heavy_at_module_level(light: str) -> None:
    wrong = [
        f"{name} imports {heavy}"
        for name, tree in modules().items()
        if name.split(".")[0] == light
        for node in import_nodes(tree, inside=False)
        for heavy in (each.split(".")[0] for each in targets(node))
        if heavy in HEAVY
    ]
    assert not wrong, "import it inside the function: " + "; ".join(wrong)


def test_building_the_command_line_loads_nothing_heavy() -> None:
    script = (
        "import sys, replay.cli; replay.cli.build(); print(*(each.split('.')[0] for each in sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not set(loaded.split()) & HEAVY


def test_help_answers_at_once() -> None:
    """In processor time, which other work on the machine changes little."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "replay", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 0.3


def test_names_say_what_a_file_holds(root: Path) -> None:
    named = [*(root / "replay").rglob("*.py"), *(root / "tests").rglob("*.py")]
    assert not [path for path in named if path.stem in EMPTY_NAMES or path.parent.name in EMPTY_NAMES]


@pytest.fixture(scope="module")
def tracked(root: Path) -> list[Path]:
    """Files that git tracks."""
    if not (root / ".git").exists():
        pytest.skip("not a git checkout: nothing tells which files are tracked")
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=True)
    return [root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def test_top_level(root: Path, tracked: list[Path]) -> None:
    tops = {path.relative_to(root).parts[0] for path in tracked}
    assert {each for each in tops if not each.startswith(".")} <= TOP_LEVEL


MACHINE = {
    "a home folder": re.compile(r"/(?:home|Users)/\w+/|/ro{2}t/"),
    "a package index": re.compile(
        r"https?://[^ )\"']*/(?:simple|packages|dists)/|py{1}pi\.org|python{1}hosted"
    ),
    "a download address": re.compile(r"^ *(?:resolved|source|url) *[=:].*https?://", re.MULTILINE),
    "a temporary folder": re.compile(r"/t{1}mp/\w"),
}


def test_no_machine_in_tracked_files(root: Path, tracked: list[Path]) -> None:
    here = re.compile(re.escape(f"{root}/"))
    wrong = []
    for path in tracked:
        data = path.read_bytes()
        if b"\0" in data:
            continue
        text = data.decode("utf-8", errors="replace")
        for what, pattern in (*MACHINE.items(), ("this checkout's path", here)):
            found = pattern.search(text)
            if found:
                wrong.append(f"{path.relative_to(root)} holds {what}: {found[0]!r}")
    assert not wrong, "; ".join(wrong)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a home folder", "see /" + "home/someone/x"),
        ("a home folder", "/" + "root/.cache"),
        ("a package index", "https" + "://mirror.example/" + "simple/numpy"),
        ("a download address", "url " + "= http" + "s://mirror.example/x"),
        ("a temporary folder", "/" + "tmp/venv"),
    ],
)
def test_the_machine_patterns_match(what: str, text: str) -> None:
    assert MACHINE[what].search(text)


def test_files_stay_small_enough(root: Path, tracked: list[Path]) -> None:
    large = [path.relative_to(root) for path in tracked if path.stat().st_size > 3_000_000]
    assert not large, f"at most 3 MB a file: {large}"


def test_the_package_loads_its_names_on_first_use() -> None:
    import replay

    for name in replay.__all__:
        assert getattr(replay, name) is not None
    assert dir(replay) == sorted(replay.__all__)
    with pytest.raises(AttributeError, match="no attribute 'open_tracee'"):
        replay.open_tracee  # noqa: B018
    script = "import sys, replay; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {each for each in loaded.split() if each.startswith("replay.")}

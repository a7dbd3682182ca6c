"""Reports: the same content in both forms, every text of a trace escaped, one page that loads nothing."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser import dom, driven, needs_browser
from conftest import Outcome
from made_run import SIZE, made_run, made_survey

from replay.ledger.window_table import WindowTable
from replay.report import rendered, write_report, write_run
from replay.report.brief import brief
from replay.report.gather import gather
from replay.report.markdown import escape, fenced
from replay.report.page import DARK
from replay.report.prepared import prepare
from replay.report.subject import Subject
from replay.run import Run, load

Cli = Callable[..., Outcome]
VOID = {"meta", "link", "input", "br", "wbr", "img", "hr"}
NASTY = "<script>alert('x')</script> & \"q\" | `c` *b* [l](http://e.x)"


class Page(HTMLParser):
    """What a page holds: its tags in order, ids, links, texts; and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.cells: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def page_of(run: Run) -> Page:
    return Page(rendered(run)["report.html"].decode())


def markdown_of(run: Run) -> str:
    return rendered(run)["report.md"].decode()


@pytest.fixture(scope="module")
def run() -> Run:
    return made_run(drafts=made_survey())


@pytest.fixture(scope="module")
def files(run: Run) -> dict[str, bytes]:
    return rendered(run)


@pytest.fixture(scope="module")
def page(files: dict[str, bytes]) -> Page:
    return Page(files["report.html"].decode())


def test_the_files_of_a_report(files: dict[str, bytes]) -> None:
    charts = {
        "hit_curves",
        "miss_curve",
        "bytes_by_fate",
        "layer_heatmap",
        "trace_line",
        "frontier",
        "drafts",
    }
    assert set(files) == {"report.md", "report.html", *(f"{name}.svg" for name in charts)}


def test_a_report_is_a_function_of_the_run(run: Run, files: dict[str, bytes]) -> None:
    assert rendered(run) == files


def test_a_saved_run_makes_the_same_report(run: Run, files: dict[str, bytes], tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    assert rendered(load(tmp_path / "run")) == files


def test_ids_are_unique_and_links_inside_find_them(page: Page) -> None:
    ids = Counter(attrs["id"] for _, attrs in page.tags if "id" in attrs)
    assert not [name for name, times in ids.items() if times > 1]
    inside = [attrs["href"] for tag, attrs in page.tags if tag in ("a", "use") and "href" in attrs]
    assert inside and {str(each)[1:] for each in inside} <= set(ids)
    labelled = [str(attrs["aria-labelledby"]) for _, attrs in page.tags if "aria-labelledby" in attrs]
    assert set(labelled) <= set(ids)


def test_the_page_asks_for_nothing(files: dict[str, bytes], page: Page) -> None:
    text = files["report.html"].decode()
    assert not re.findall(r"(?:src|href)=\"(?!#|data:,)[^\"]*\"", text)
    assert not re.findall(r"@import|url\((?!#)", text)
    assert set(re.findall(r"https?://[^\"'<> ]+", text)) <= {"http://www.w3.org/2000/svg"}
    policy = next(str(each["content"]) for each in page.of("meta") if "http-equiv" in each)
    assert policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy


def test_scripts_may_run(files: dict[str, bytes]) -> None:
    import hashlib
    from base64 import b64encode

    text = files["report.html"].decode()
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in text


def test_tables_and_charts_speak(page: Page) -> None:
    assert len(page.of("table")) == len(page.of("caption"))
    assert all("scope" in each for each in page.of("th"))
    charts = [each for each in page.of("div") if "chart" in str(each.get("class", ""))]
    assert len(charts) == 7
    assert all(each["role"] == "img" and len(str(each["aria-label"])) > 40 for each in charts)
    assert {"lang": "en"} in page.of("html")
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:], strict=False))


def test_charts_take_the_pages_colours(files: dict[str, bytes]) -> None:
    text = files["report.html"].decode()
    svg = "".join(re.findall(r"<svg viewBox.*?</svg>", text, re.DOTALL))
    for ink in DARK:
        bare = re.findall(rf"(?<!, ){ink}", svg)
        assert not bare, ink


def rows_of(text: str, heading: str) -> list[list[str]]:
    """Cells of the first Markdown table below a heading."""
    lines = text.split(heading, 1)[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    assert len({len(row) for row in table}) == 1
    return table


def figure(cell: str) -> float:
    """The first number of a cell."""
    return float(re.sub(r"[*%,]", "", cell.split("(")[0]))


def test_the_markdown_table_is_the_summary(run: Run, files: dict[str, bytes]) -> None:
    head, rule, *rows = rows_of(files["report.md"].decode(), "## Which policy")
    assert head[:5] == [
        "policy",
        "misses per token",
        "MB read per token",
        "wait ms per token",
        "adjusted hit ratio",
    ]
    assert rule[0] == ":---" and set(rule[1:]) == {"---:"}
    base = run.summary[0]
    for row, cells in zip(run.summary, rows, strict=True):
        assert cells[0].split(" (")[0] == row["policy"]
        assert figure(cells[1]) == pytest.approx(row["misses_per_token"], abs=0.005)
        assert figure(cells[2]) == pytest.approx(row["read_bytes_per_token"] / 1e6, abs=0.05)
        assert figure(cells[3]) == pytest.approx(row["wait_us_per_token"] / 1e3, abs=0.005)
        assert figure(cells[4]) == pytest.approx(100 * row["adjusted_hit_ratio"], abs=0.05)
        if row is not base:
            change = 100 * (row["misses_per_token"] / base["misses_per_token"] - 1)
            assert float(cells[1].split("(")[1].rstrip("%)")) == pytest.approx(change, abs=0.05)


def test_the_best_is_marked_among_what_an_engine_can_run(run: Run) -> None:
    grid = gather(run).policies
    marked = {row.name for row in grid.rows for cell in row.cells if cell.best}
    assert marked and "oracle+lru" not in marked
    column = [row.cells[0] for row in grid.rows]
    runnable = [cell for cell, row in zip(column, grid.rows, strict=True) if row.note != "bound"]
    assert [cell.best for cell in runnable] == [
        cell.value == min(each.value or 0 for each in runnable) for cell in runnable
    ]


def test_the_brief_says_what_the_bounds_miss(run: Run, files: dict[str, bytes]) -> None:
    misses = next(row["misses_per_token"] for row in run.summary if row["policy"] == "oracle+lru")
    assert f"oracle+lru {misses:.2f} misses per token" in files["report.md"].decode()


def test_the_page_shows_the_same_figures(run: Run, page: Page) -> None:
    text = " ".join("".join(page.text).split())
    for row in gather(run).policies.rows:
        assert all(cell.text in text for cell in row.cells)


def test_bytes_of_the_report_add_up(run: Run) -> None:
    grid = gather(run).fates
    names = [head.text for head in grid.heads[1:]]
    for row in grid.rows:
        values = {name: cell.value or 0.0 for name, cell in zip(names, row.cells, strict=True)}
        assert values["read"] == pytest.approx(
            sum(values[each] for each in ("demand", "timely", "late", "unused"))
        )


@pytest.mark.parametrize("where", ["model", "domain", "policy", "warning"])
def test_what_a_trace_says_stays_text(where: str, tmp_path: Path) -> None:
    run = made_run(
        (NASTY, "none+lru") if where == "policy" else ("none+lru", "unpert1+lru"),
        model=NASTY if where == "model" else "m",
        domains=(NASTY, "b") if where == "domain" else ("a", "b"),
    )
    if where == "warning":
        run.info["warnings"] = [NASTY]
    found = rendered(run)
    html = found["report.html"].decode()
    page = Page(html)
    assert len(page.of("script")) == 1 and "<script>alert" not in html
    shown = "".join([*page.text, *(str(value) for _, attrs in page.tags for value in attrs.values())])
    assert "<script>alert('x')</script>" in shown
    markdown = found["report.md"].decode()
    assert "<script" not in markdown.replace("\\<script", "")
    assert not re.search(r"(?<!\\)\]\(http", markdown)
    for name, data in found.items():
        if name.endswith(".svg"):
            assert b"<script" not in data
    run.save(tmp_path / "run")
    with open(tmp_path / "run/summary.csv", newline="", encoding="utf-8") as file:
        assert [row["policy"] for row in csv.DictReader(file)] == [row["policy"] for row in run.summary]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none+lru", "none+lru"),
        ("a|b", "a\\|b"),
        ("*a* _b_ `c`", "\\*a\\* \\_b\\_ \\`c\\`"),
        ("a\n# b", "a \\# b"),
        ("$x$ ~y~ &amp;", "\\$x\\$ \\~y\\~ \\&amp;"),
        ("a\x1bb", "a\\\\x1bb"),
        ("me@example", "me&#64;example"),
    ],
)
def test_markdown_escapes(text: str, expected: str) -> None:
    assert escape(text) == expected


def test_a_code_block_cannot_be_ended_from_inside() -> None:
    assert fenced("a\n```\nb").splitlines()[0] == "````"


def test_the_command_is_quoted(files: dict[str, bytes]) -> None:
    assert "replay compare 'traces/a b' --out run" in files["report.md"].decode()


def test_without_a_clock_the_parts_born_of_time_are_left_out() -> None:
    run = made_run(timed=False)
    markdown = markdown_of(run)
    assert "without a clock (\\-\\-no-clock)" in markdown or "without a clock (--no-clock)" in markdown
    head = rows_of(markdown, "## Which policy")[0]
    assert not [each for each in head if "wait" in each or "timely" in each or "late" in each]
    assert "Fewest bytes asked for" in markdown and "Shortest wait" not in markdown
    assert rows_of(markdown, "## Where the bytes")[0] == [
        "policy",
        "demand MB",
        "used MB",
        "unwanted MB",
        "read MB",
    ]


def test_without_curves_the_section_says_so() -> None:
    run = made_run(curves=False)
    found = rendered(run)
    assert "hit_curves.svg" not in found and "miss_curve.svg" not in found
    assert "This run has no curves" in found["report.md"].decode()
    assert "This run has no curves" in found["report.html"].decode()


def test_without_drafts_there_is_no_such_section() -> None:
    found = rendered(made_run())
    assert "drafts.svg" not in found and "Drafts: which to keep" not in found["report.md"].decode()


def test_prefill_windows_have_a_table_of_their_own() -> None:
    assert "### Prefill" in markdown_of(made_run())
    assert "### Prefill" not in markdown_of(made_run(prefill=0))


def test_only_prefill_windows() -> None:
    run = made_run(windows=4, prefill=3)
    decode = pl.col("phase") == "decode"
    run.by_window = WindowTable(run.windows.filter(~decode))
    assert rendered(run)


def test_several_routes_are_kept_apart() -> None:
    run = made_run(("none+lru", "unpert1+lru"), routes=("recorded", "rerouted"))
    subject = Subject(run)
    text = "\n".join(brief(subject, prepare(subject)))
    assert "Routes recorded: Fewest misses" in text and "Routes rerouted: Fewest misses" in text
    assert "part by at most" in text
    grid = gather(run).policies
    for kind in ("recorded", "rerouted"):
        assert sum(row.cells[0].best for row in grid.rows if kind in row.name) == 1
    picks = rows_of(markdown_of(run), "What other routes change")
    assert [row[0].split(" (")[0] for row in picks[2:]] == ["none+lru", "unpert1+lru"]
    assert figure(picks[2][1]) == 10.0
    assert page_of(run)


def test_a_recorded_row_with_unknown_counters() -> None:
    run = made_run(("none+lru", "recorded"))
    unknown = ["lookups", "hits", "dropped"]
    blank = pl.when(pl.col("policy") == "recorded").then(None).otherwise(pl.col(unknown)).name.keep()
    run.layers = run.layers.with_columns(blank)
    run.by_window = WindowTable(run.windows.with_columns(blank))
    run.curves = run.curves.filter(pl.col("policy") != "recorded") if run.curves is not None else None
    for each in ("lookups", "hits", "hit_ratio", "adjusted_hit_ratio"):
        run.summary[1][each] = None
    cells = rows_of(markdown_of(run), "## Which policy")[3]
    assert cells[0] == "recorded" and "–" in cells
    assert page_of(run)


def test_a_byte_budget_reads_as_bytes() -> None:
    markdown = markdown_of(made_run(by_bytes=True))
    assert "an arena of 40.0 MB" in markdown
    assert rows_of(markdown, "## What a larger")[0][1:5] == ["10.0 MB", "20.0 MB", "40.0 MB", "80.0 MB"]


def test_a_large_run_stays_small() -> None:
    run = made_run(tuple(f"unpert1:k={k}+decode2q:quota=0.5" for k in range(8)), layers=48, windows=600)
    assert len(rendered(run)["report.html"]) < 6_000_000


def test_a_runs_folder_is_whole(run: Run, files: dict[str, bytes], tmp_path: Path) -> None:
    write_run(run, tmp_path / "run", force=False)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        *files, "layers.parquet", "windows.parquet", "curves.parquet", "summary.json", "summary.csv", "run.json",
    }  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_report_makes_it_again(run: Run, files: dict[str, bytes], tmp_path: Path, cli: Cli) -> None:
    run.save(tmp_path / "run")
    (tmp_path / "run/notes.txt").write_text("mine")
    code, out, _ = cli("report", tmp_path / "run")
    assert (code, out.strip()) == (0, str(tmp_path / "run/report.html"))
    assert {name: (tmp_path / "run" / name).read_bytes() for name in files} == files
    assert (tmp_path / "run/notes.txt").read_text() == "mine"
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_report_follows_the_tables(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    summary[0]["misses_per_token"] = 12345.678
    (tmp_path / "run/summary.json").write_text(json.dumps(summary))
    write_report(tmp_path / "run")
    assert "12,345.68" in (tmp_path / "run/report.md").read_text()


def test_report_of_no_run(tmp_path: Path, cli: Cli) -> None:
    code, _, err = cli("report", tmp_path)
    assert code == 2 and "no run.json there" in err


DRIVER = """
const table = document.querySelector("table.sortable");
const names = () => Array.from(table.tBodies[0].rows, (row) => row.cells[0].dataset.v);
const button = table.tHead.rows[0].cells[1].querySelector("button");
button.click();
found.ascending = names();
button.click();
found.descending = names();
found.sort = table.tHead.rows[0].cells[1].getAttribute("aria-sort");
const box = document.querySelector("fieldset.series input[value='1']");
box.click();
found.off = document.querySelectorAll(".policy-1.off").length;
found.left = document.querySelectorAll(".chart[data-series] .policy-1:not(.off)").length;
box.click();
found.back = document.querySelectorAll(".policy-1.off").length;
const tip = (mark) => {
  mark.scrollIntoView({ block: "center", inline: "center" });
  const at = mark.getBoundingClientRect();
  const where = { clientX: at.x + at.width / 2, clientY: at.y + at.height / 2, bubbles: true };
  mark.dispatchEvent(new PointerEvent("pointermove", where));
  return document.getElementById("tip").textContent;
};
found.line = tip(document.querySelectorAll(".chart[data-series] .axes .policy-0 use")[0]);
found.cell = tip(document.querySelectorAll(".cells > *")[0]);
"""


@needs_browser
def test_a_browser_opens_the_page_without_complaint(files: dict[str, bytes], tmp_path: Path) -> None:
    elements, said = dom(files["report.html"], tmp_path)
    assert "CONSOLE" not in said
    found = Page(elements)
    assert [each for each in found.of("button") if each.get("type") == "button"], "the script did not run"
    boxes: list[dict[str, Any]] = [each for each in found.of("fieldset") if "hidden" not in each]
    assert len(boxes) == 1


@needs_browser
def test_sorting_hiding_and_values_under_the_pointer(
    run: Run, files: dict[str, bytes], tmp_path: Path
) -> None:
    found, said = driven(files["report.html"], DRIVER, tmp_path)
    assert "CONSOLE" not in said
    misses = {row["policy"]: row["misses_per_token"] for row in run.summary}
    for way, back in (("ascending", False), ("descending", True)):
        assert [misses[name] for name in found[way]] == sorted(misses.values(), reverse=back)
    assert found["sort"] == "descending"
    assert found["off"] == 1 + 4 + 3 and found["left"] == 0 and found["back"] == 0
    curves = run.curves
    assert curves is not None
    first = curves.filter(
        (pl.col("phase") == "decode") & pl.col("layer").is_null() & pl.col("hit_ratio").is_not_null()
    )
    each = first["misses"][0] / run.summary[0]["tokens"]
    assert found["line"] == f"none+lru\narena (slots) 20\nmisses per token {float(f'{each:.3g}'):g}"
    assert found["cell"].startswith("none+lru\nlayer 0: ")


def test_sizes_of_the_made_run_are_those_of_its_tables(run: Run) -> None:
    """The run behind these tests keeps the identities that a real one keeps."""
    table = run.layers
    read = table["demand_bytes"] + table["timely_bytes"] + table["late_bytes"] + table["unused_bytes"]
    assert (table["disk_bytes"] == read).all()
    assert (
        table["issued_bytes"] == table["claimed_bytes"] + table["cancelled_bytes"] + table["unused_bytes"]
    ).all()
    assert (table["demand_bytes"] == table["misses"] * SIZE).all()

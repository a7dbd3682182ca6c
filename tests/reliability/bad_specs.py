"""Policy specs, switches, bounds and options that mean nothing."""

from pathlib import Path
from typing import Any

from raw_trace import healthy

from reliability.bad import OUT, Bad


def _parameters(test: Any) -> list[tuple[Any, ...]]:
    return [each for mark in test.pytestmark if mark.name == "parametrize" for each in mark.args[1]]


TRACE = "trace"

# name: (what to put after compare TRACE, what the line has to say)
OPTIONS: dict[str, tuple[tuple[object, ...], str]] = {
    "two specs alike": (("-p", "lru", "-p", "lru"), "given twice"),
    "baseline that is not there": (("-p", "lru", "--baseline", "fifo"), "fifo"),
    "baseline that is no spec": (("-p", "lru", "--baseline", "fif"), "--baseline fif"),
    "slots zero": (("--slots", "0"), "at least 1"),
    "slots below zero": (("--slots", "-4"), "--slots"),
    "slots a word": (("--slots", "many"), "whole numbers"),
    "slots a fraction": (("--slots", "8.5"), "whole numbers"),
    "slots of two classes": (("--slots", "8,8"), "one figure a class"),
    "slots past any": (("--slots", "9" * 30), "--slots"),
    "slots 0%": (("--slots", "0%"), "larger share"),
    "slots 101%": (("--slots", "101%"), "above 100%"),
    "slots too few for an event": (("--slots", "1"), "slot"),
    "slots Arabic digits": (("--slots", "\u0664\u0664"), "--slots"),
    "bytes a word": (("--bytes", "much"), "not a number with a unit"),
    "bytes of no unit": (("--bytes", "5 bananas"), "unknown unit"),
    "bytes past 64 bits": (("--bytes", "99999999999TiB"), "more than"),
    "bytes below zero": (("--bytes", "-5MB"), "size '-5MB'"),
    "bytes half": (("--bytes", "1.5"), "whole number of bytes"),
    "slots and bytes": (("--slots", "8", "--bytes", "8kB"), "give one"),
    "budget and slots": (("--budget", "x", "--slots", "8"), "leave out"),
    "scope unknown": (("--scope", "expert"), "scope"),
    "order unknown": (("--order", "random"), "order"),
    "cell unknown": (("--cell", "both"), "cell"),
    "start unknown": (("--start", "hot"), "start"),
    "warm of nothing": (("--start", "warm:"), "warm"),
    "warm below zero": (("--start", "warm:-1"), "warm"),
    "warm past the trace": (("--start", "warm:9"), "warm"),
    "prefill unknown": (("--prefill", "supply"), "prefill"),
    "prefill cap of a word": (("--prefill", "stream:x"), "stream"),
    "prompt-hot below zero": (("--prompt-hot", "-2"), "prompt-hot"),
    "prompt-hot a word": (("--prompt-hot", "some"), "prompt-hot"),
    "routes unknown": (("--routes", "invented"), "routes"),
    "cacheprior of words": (("--routes", "cacheprior:a,b"), "cacheprior"),
    "belady under rerouted": (("-p", "none+belady", "--routes", "rerouted"), "belady"),
    "oracle under rerouted": (("-p", "oracle", "--routes", "rerouted"), "oracle"),
    "sieve by bytes": (("-p", "none+sieve", "--bytes", "8kB"), "sieve"),
    "grid of words": (("--grid", "a,b"), "--grid"),
    "grid of zero": (("--grid", "0"), "--grid"),
    "grid of NaN": (("--grid", "nan"), "--grid"),
    "grid past any": (("--grid", "1e9"), "--grid"),
    "clock and none": (("--clock", "x.toml", "--no-clock"), "give one"),
    "clock grid and no clock": (("--clock-grid", "auto", "--no-clock"), "give one"),
    "clock grid of words": (("--clock-grid", "rate=fast"), "rate"),
    "clock grid of nothing": (("--clock-grid", "x=1"), "--clock-grid"),
    "reads without a clock": (("--reads", "--no-clock"), "--reads"),
    "threads zero": (("--threads", "0"), "threads"),
    "threads a word": (("--threads", "all"), "threads"),
    "an option that is none": (("--slot", "8"), "--slot"),
    "an argument too many": (("other",), "argument"),
    "static on a missing trace": (("-p", "none+static:train=nowhere"), "nowhere"),
    "static on no sessions": (("-p", "none+static:train=sessions/7-9"), "session"),
    "static on words": (("-p", "none+static:train=sessions/a-b"), "session"),
    "belady-n below one": (("-p", "none+belady-n:n=0"), "belady-n"),
    "belady-n gamma": (("-p", "none+belady-n:gamma=2"), "gamma"),
    "k past 64 bits": (("-p", "unpert1:k=9999999999999999999"), "'k' of unpert1"),
    "grid past 64 bits": (("--grid", "9" * 5000), "--grid"),
    "clock grid of NaN": (("--clock-grid", "workers=nan"), "no number"),
    "clock grid of infinity": (("--clock-grid", "workers=inf"), "no number"),
    "clock grid of half a worker": (("--clock-grid", "workers=1.5"), "workers = 1.5"),
    "clock grid past any": (
        (
            "--clock-grid",
            ",".join(
                f"{each}={'/'.join(['1'] * 90)}"
                for each in ("rate", "latency", "workers", "reserved", "pieces", "pre_us")
            ),
        ),
        "at most 100",
    ),
    "cacheprior past 64 bits": (("--routes", "cacheprior:0.2," + "9" * 30), "cacheprior"),
    "warm of Arabic digits": (("--start", "warm:\u0662"), "warm"),
    "schedule looser than recorded": (("-p", "none+flat:x"), "flat"),
    "a spec of 100,000 letters": (("-p", "a" * 100_000), "cumulative"),
    "a spec of 2,000 parts": (("-p", "+".join(["lru"] * 2000)), "given twice"),
    "a spec with a line end": (("-p", "lru\nfifo"), "no policy"),
    "a spec with a control character": (("-p", "lru\x1b[31m"), "no policy"),
    "a spec of another alphabet": (("-p", "\u043bru"), "no policy"),
    "a list where a number belongs": (("-p", "unpert1:k=1/2"), "k"),
    "a file that is not there": (("-p", "@nowhere.toml"), "nowhere.toml"),
}

COMMANDS: dict[str, tuple[tuple[object, ...], str]] = {
    "no such command": (("compar", "x"), "did you mean compare"),
    "no trace": (("compare",), "TRACE"),
    "a trace that is not there": (("compare", "nowhere"), "nowhere"),
    "info of nothing": (("info", "nowhere"), "nowhere"),
    "audit of nothing": (("audit", "nowhere"), "nowhere"),
    "fidelity of nothing": (("fidelity", "nowhere"), "nowhere"),
    "curves of nothing": (("curves", "nowhere"), "nowhere"),
    "verdict of nothing": (("verdict", "nowhere", "--baseline", "lru", "--candidate", "fifo"), "nowhere"),
    "drafts of nothing": (("drafts", "nowhere"), "nowhere"),
    "drafts without a trace": (("drafts",), "TRACE"),
    "drafts with a schedule of nine": (("drafts", "--grid", "--schedule", ",".join(["1"] * 9)), "schedule"),
    "drafts with a NaN floor": (("drafts", "--grid", "--min-p", "nan"), "nan"),
    "drafts at no cost": (("drafts", "--grid", "--cost", "0,0", "--fixed", "0"), "cost"),
    "drafts at a cost of words": (("drafts", "--grid", "--cost", "a,b"), "cost"),
    "drafts at an infinite cost": (("drafts", "--grid", "--cost", "1,inf"), "cost"),
    "drafts at a NaN fixed": (("drafts", "--grid", "--fixed", "nan"), "cost"),
    "budget of nothing": (("budget", "nowhere", "--slots", "9", "--train", "0", "--score", "1"), "nowhere"),
    "fit-clock of nothing": (("fit-clock", "nowhere"), "nowhere"),
    "query of nothing": (("query", "nowhere", "SELECT 1"), "nowhere"),
    "report of nothing": (("report", "nowhere"), "nowhere"),
    "diff of nothing": (("diff", "nowhere", "nowhere"), "nowhere"),
    "diff within a word": (("diff", "nowhere", "nowhere", "--tolerance", "x"), "share"),
    "recover of nothing": (("recover", "nowhere", OUT), "nowhere"),
    "export of nothing": (("export", "jsonl", "nowhere", OUT), "nowhere"),
    "cut of nothing": (("cut", "nowhere", OUT, "--windows", "4"), "nowhere"),
    "synth of no layers": (("synth", OUT, "--layers", "0"), "layers"),
    "synth of no experts": (("synth", OUT, "--experts", "0"), "experts"),
    "synth of more picks than experts": (("synth", OUT, "--experts", "4", "--top-k", "5"), "top-k"),
    "synth of windows below zero": (("synth", OUT, "--windows", "-1"), "windows"),
    "synth of a NaN popularity": (("synth", OUT, "--popularity", "nan"), "popularity"),
    "synth of an infinite drift": (("synth", OUT, "--drift", "inf"), "drift"),
    "synth of a recall past one": (("synth", OUT, "--recall", "1.5"), "recall"),
    "synth of no bytes": (("synth", OUT, "--expert-bytes", "0"), "expert-bytes"),
    "curves over no capacities": (("curves", TRACE, "--grid", "0"), "grid"),
    "curves over a range without a count": (("curves", TRACE, "--grid", "1%..5%"), "how many"),
    "curves over a range of endless count": (("curves", TRACE, "--grid", "1%..5%:" + "9" * 5000), "how many"),
    "curves over endless slots": (("curves", TRACE, "--grid", "9" * 5000), "more slots"),
    "curves over words": (("curves", TRACE, "--grid", "a..b:4"), "size"),
    "curves over mixed kinds": (("curves", TRACE, "--grid", "5%,8"), "mix"),
    "curves of words for layers": (("curves", TRACE, "--layers", "a"), "--layers"),
    "curves of a layer that is not there": (("curves", TRACE, "--layers", "3"), "layers"),
    "cut of no windows": (("cut", TRACE, OUT, "--windows", "0"), "windows"),
    "cut of too many windows": (("cut", TRACE, OUT, "--windows", "5"), "1 to 4"),
    "cut of a table that is not there": (("cut", TRACE, OUT, "--windows", "2", "--tables", "x"), "no table"),
    "cut onto itself": (("cut", TRACE, TRACE, "--windows", "2", "--force"), "itself"),
    "export of another format": (("export", "csv", TRACE, OUT), "csv"),
    "export onto the trace": (("export", "llamacpp", TRACE, TRACE), "exists already"),
    "verdict of one spec": (("verdict", TRACE, "--baseline", "lru"), "--candidate"),
    "verdict of no spec": (("verdict", TRACE, "--baseline", "lru", "--candidate", "x"), "no policy"),
    "verdict of one recording": (("verdict", TRACE, "--recorded"), "two"),
    "budget on no sessions": (("budget", TRACE, "--slots", "9", "--train", "x", "--score", "1"), "--train"),
    "budget on sessions that are not there": (("budget", TRACE, "--train", "7", "--score", "1"), "--train"),
    "budget of a figure that is none": (
        ("budget", TRACE, "--train", "0", "--score", "1", "--figure", "joy"),
        "--figure",
    ),
    "query that is no SQL": (("query", TRACE, "SELEC 1"), "query: "),
    "query of another table": (("query", TRACE, "SELECT * FROM nothing"), "nothing"),
    "query of two statements": (("query", TRACE, "SELECT 1; SELECT 2"), "query: "),
    "query that writes": (("query", TRACE, "CREATE TABLE x AS SELECT 1"), "query: "),
    "query of another file": (("query", TRACE, "SELECT * FROM read_csv('/etc/hosts')"), "query: "),
    "query of a hidden file": (("query", TRACE, "SELECT * FROM '/etc/hosts'"), "query: "),
    "query that copies": (("query", TRACE, "COPY (SELECT 1) TO 'x.csv'"), "query: "),
    "query that loads": (("query", TRACE, "INSTALL httpfs"), "query: "),
    "query that attaches": (("query", TRACE, "ATTACH 'x.db'"), "query: "),
    "query that sets": (("query", TRACE, "SET enable_external_access = true"), "query: "),
    "query in two shapes": (("query", TRACE, "SELECT 1", "--json", "--csv"), "give one"),
    "query without memory": (("query", TRACE, "SELECT 1", "--memory", "much"), "size"),
    "report of a trace": (("report", TRACE), "run.json"),
    "a trace's file for the trace": (("info", f"{TRACE}/trace.json"), "trace.json"),
    "policies for nothing": (("policies", "nowhere"), "nowhere"),
}


def _compare(options: tuple[object, ...]) -> Any:
    def make(folder: Path) -> list[object]:
        trace = healthy().write(folder / "trace")
        clock = (
            () if any("clock" in str(each) or "reads" in str(each) for each in options) else ("--no-clock",)
        )
        curves = () if "--grid" in options else ("--no-curves",)
        return ["compare", trace, "--out", folder / OUT, *clock, *curves, *options]

    return make


def _command(words: tuple[object, ...]) -> Any:
    def make(folder: Path) -> list[object]:
        if any(str(each).startswith(TRACE) for each in words):
            healthy().write(folder / TRACE)
        paths = ("nowhere", OUT, TRACE, f"{TRACE}/trace.json")
        return [folder / str(each) if each in paths else each for each in words]

    return make


def cases() -> list[Bad]:
    """Every spec and option that is refused."""
    import test_spec

    found = []
    for number, (text, words) in enumerate(_parameters(test_spec.test_refusals)):
        found.append(Bad(f"refusal {number}: {text[:30]}", "spec", _compare(("-p", text)), (words,)))
    for text, words in _parameters(test_spec.test_switches_refused):
        found.append(Bad(text, "switches", _compare(("--env", text)), (words,)))
    for name, (options, word) in OPTIONS.items():
        found.append(Bad(name, "option", _compare(options), (word,)))
    for name, (line, word) in COMMANDS.items():
        found.append(Bad(name, "command", _command(line), (word,)))
    return found

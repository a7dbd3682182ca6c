"""The page for engine authors: its sketches compile, run, and write traces that validate and hold what went in."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from conftest import Outcome
from imported import convert, lists, phases

from replay.importers.jsonl import event, header
from replay.trace import open_trace

Cli = Callable[..., Outcome]


def sketch(root: Path, language: str) -> str:
    found = re.findall(
        rf"^```{language}\n(.*?)^```$", (root / "schemas" / "README.md").read_text(), re.M | re.S
    )
    assert len(found) == 1
    return found[0]


def build(folder: Path, name: str, text: str, *flags: str) -> Path:
    compiler = {"c": "cc", "cpp": "g++"}[name]
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    (folder / f"r.{name}").write_text(text)
    subprocess.run(
        [compiler, "-Wall", "-Werror", *flags[:1], f"r.{name}", "-o", "r", *flags[1:]], cwd=folder, check=True
    )
    return folder / "r"


def test_the_sketch_of_json_lines(root: Path, tmp_path: Path, cli: Cli) -> None:
    main = """
int main(int argc, char **argv) {
    int prompt[] = {3, 1, 1, 2}, token[] = {0, 2};
    unsigned char resident[] = {0, 1, 0, 1};
    recorder_open(argv[argc - 1], 2, 4, 2, 1000);
    recorder_window(7, 1, 2);
    recorder_layer(0, 2, prompt, resident);
    recorder_layer(1, 2, prompt, resident);
    recorder_window(7, 0, 1);
    recorder_layer(0, 1, token, NULL);
    recorder_layer(1, 1, token, NULL);
    recorder_close();
    return 0;
}
"""
    program = build(tmp_path, "c", sketch(root, "c") + main, "-O1")
    subprocess.run([program, "r.jsonl"], cwd=tmp_path, check=True)
    result, trace = convert("jsonl", tmp_path / "r.jsonl")
    assert lists(trace)[0, 1, 1] == [1, 2] and lists(trace)[1, 0, 0] == [0, 2]
    assert phases(trace) == ["prefill", "decode"] and trace.windows.session.tolist() == [7, 7]
    assert trace.meta.expert_bytes == 1000 and trace.has("residents") and result.notes == ()
    assert cli("validate", tmp_path / "trace").code == 0


def test_the_sketch_of_parquet(root: Path, tmp_path: Path, cli: Cli) -> None:
    folder = Path(pyarrow.get_library_dirs()[0])
    libraries = [next(iter(sorted(folder.glob(f"lib{name}.so.*"))), None) for name in ("arrow", "parquet")]
    if None in libraries or not (Path(pyarrow.get_include()) / "parquet/arrow/writer.h").is_file():
        pytest.skip("pyarrow has no C++ headers and libraries here")
    if not Path("/usr/include/openssl/evp.h").is_file():
        pytest.skip("no OpenSSL headers")
    main = """
int main(int, char** argv) {
    Recorder recorder(argv[1], 2, 8, 2, 1000);
    for (int window = 0; window < 130; ++window) {
        int rows = window % 50 ? 1 : 3;
        std::vector<int> picks;
        for (int at = 0; at < 2 * rows; ++at) {
            picks.push_back((window + at) % 8);
            picks.push_back((window + at + 3) % 8);
        }
        recorder.step(window / 50, rows > 1, rows, picks);
    }
    recorder.close();
}
"""
    include = ["-isystem", pyarrow.get_include()]
    link = [*map(str, libraries), "-lcrypto", f"-Wl,-rpath,{folder}"]
    program = build(tmp_path, "cpp", sketch(root, "cpp") + main, "-std=c++20", *include, *link)
    (tmp_path / "t").mkdir()
    subprocess.run([program, "t"], cwd=tmp_path, check=True)
    assert cli("validate", tmp_path / "t").code == 0
    trace = open_trace(tmp_path / "t")
    found = lists(trace)
    assert trace.windows.rows.tolist() == [1 if w % 50 else 3 for w in range(130)]
    assert found[0, 1, 0] == [1, 4] and found[0, 1, 1] == [4, 7] and found[129, 0, 1] == [2, 5]
    assert trace.tables["selections"].row_groups == 3


def test_every_key_of_the_lines_is_on_the_page(root: Path) -> None:
    page = (root / "schemas" / "README.md").read_text()
    for key in (*header._HEADER, *header._WINDOW, *event._READ, *event.COUNTERS):
        assert f"`{key}`" in page, key

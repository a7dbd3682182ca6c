"""What the built distributions hold: the package whole, and nothing beside it."""

import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import replay


@pytest.fixture(scope="module")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build wheel and sdist into a folder."""
    if not (root / ".git").exists():
        pytest.skip("not a git checkout: nothing tells which files belong")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=root, capture_output=True, check=True
    )
    return folder


def belonging(root: Path, *folders: str) -> set[str]:
    """Files of the checkout under some folders, those that git ignores left out."""
    command = [
        "git",
        "-C",
        str(root),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        *folders,
    ]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split("\0") if name and (root / name).is_file()}


def test_wheel_holds_the_package_and_nothing_else(root: Path, built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"moe_replay-{replay.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        about = f"moe_replay-{replay.__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{about}/METADATA").decode())
        scripts = archive.read(f"{about}/entry_points.txt").decode()
    extra = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert names == belonging(root, "replay") | {f"{about}/{name}" for name in extra}
    assert metadata["Name"] == "moe-replay"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "replay = replay.cli:entry" in scripts


def test_sdist_holds_the_project(root: Path, built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = ["replay", "schemas", "traces", "reports", "tests", "pyproject.toml", "README.md", "LICENSE"]
    assert names - {".gitignore", "PKG-INFO"} == belonging(root, *folders)


def test_licence(root: Path) -> None:
    text = (root / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
    assert "Copyright [yyyy] [name of copyright owner]" in text  # the appendix as published: nobody's name

"""A page in headless Chromium, where there is one: its elements after its scripts ran, and what it says of itself."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

needs_browser = pytest.mark.skipif(
    BROWSER is None,
    reason="no Chromium on this machine (Debian: apt-get install chromium): the page is not opened",
)


def dom(page: bytes, folder: Path, *options: str) -> tuple[str, str]:
    """A page's elements after its scripts ran, and what the browser said."""
    (folder / "report.html").write_bytes(page)
    command = [
        str(BROWSER), *QUIET, *options, f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr",
        "--dump-dom", (folder / "report.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


def driven(page: bytes, script: str, folder: Path, *options: str) -> tuple[Any, str]:
    """What a script finds on a page, and what the browser said.

    Parameters
    ----------
    page : bytes
    script : str
        Fills the object ``found``; it runs when the page is loaded and laid out.
    folder : Path
        Where the page and the browser's profile are written.
    *options : str
        Further options of the browser.
    """
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.decode())
    whole = (
        "addEventListener('load', () => { const found = {}; document.documentElement.scrollHeight;"
        f"{script}; const result = document.createElement('pre'); result.id = 'result';"
        "result.textContent = JSON.stringify(found); document.body.appendChild(result); });"
    )
    elements, said = dom(
        text.replace("</body>", f"<script>{whole}</script></body>").encode(), folder, *options
    )
    return json.loads(unescape(re.findall(r'<pre id="result">(.*?)</pre>', elements)[0])), said

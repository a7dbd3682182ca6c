"""A chart inside a page: the SVG without what only a file needs, in the page's colours, its ids its own."""

from __future__ import annotations

import re

from replay.plot.style import INKS

_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_ROOT = re.compile(r"<svg\b[^>]*>")
_VIEW = re.compile(r'viewBox="([^"]*)"')
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<style\b.*?</style>", re.DOTALL)
_ID = re.compile(r' id="([^"]*)"')
_USED = re.compile(r'(?:url\(#|xlink:href="#)([^")]+)')
_INK = re.compile("|".join(map(re.escape, INKS)))
_TAG = re.compile(r"<[^>]+>")
_FILL = re.compile(r' fill="(#[0-9a-f]{6})"')
_CLASS = re.compile(r"policy-\d+|key-\d+|cells|axes(?=_\d+$)")


def variable(ink: str) -> str:
    """The CSS variable of an ink."""
    return f"--c{ink[1:]}"


def inlined(svg: bytes, name: str) -> str:
    """An SVG as a part of an HTML page.

    Parameters
    ----------
    svg : bytes
        A chart's file.
    name : str
        Unique on the page: what its ids begin with.

    Returns
    -------
    str
        One ``svg`` element, hidden from screen readers (the page gives its words), without metadata, comments and
        styles that would reach beyond it. Inks are CSS variables that fall back to themselves; groups named by a
        policy have a class instead of an id.
    """
    text = _HEAD.sub("", svg.decode("utf-8"), count=1)
    text = _DROPPED.sub("", text)
    view = _VIEW.search(text)
    assert view is not None
    root = f'<svg viewBox="{view[1]}" aria-hidden="true" focusable="false">'
    text = _ROOT.sub(root, text, count=1)
    used = set(_USED.findall(text))

    def ident(found: re.Match[str]) -> str:
        if found[1] in used:
            return f' id="{name}-{found[1]}"'
        kind = _CLASS.match(found[1])
        return f' class="{kind[0]}"' if kind else ""

    def owned(found: re.Match[str]) -> str:
        tag = _ID.sub(ident, found[0])
        tag = tag.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
        return _themed(tag)

    return re.sub(r">\s+<", "><", _TAG.sub(owned, text).strip())


def _themed(tag: str) -> str:
    """Inks of a tag as variables; a variable needs a style, not an attribute."""
    tag = _FILL.sub(lambda found: f' style="fill: {found[1]}"', tag) if ' style="' not in tag else tag
    return _INK.sub(lambda ink: f"var({variable(ink[0])}, {ink[0]})", tag)

"""The frame and the style of a page: one HTML file, nothing loaded from anywhere else."""

from __future__ import annotations

from html import escape
from string import Template

from .._version import __version__

_FRAME = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<link rel="icon" href="data:,">
<style>$style</style>
</head>
<body>
<header>
<p class="kicker">$kicker</p>
<h1>$heading</h1>
<p class="lead">$lead</p>
</header>
<main>
$body
</main>
<footer><p>Made by bridgehash $version.</p></footer>
</body>
</html>
"""
)

_STYLE = """
:root { --ink: #1c2430; --soft: #586273; --paper: #ffffff; --card: #f5f6f8; --line: #dde1e7;
  --accent: #0b63a5; --alarm: #a63d00; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8ebf0; --soft: #a3adba; --paper: #14181f; --card: #1e242d; --line: #343c48;
    --accent: #7cc0f5; --alarm: #f0a070; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 3rem; max-width: 50rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { margin: 0 0 .75rem; font-size: clamp(1.6rem, 5vw, 2.1rem); line-height: 1.2; }
h2 { margin: 3rem 0 .75rem; font-size: 1.3rem; line-height: 1.3; }
h3 { margin: 1.75rem 0 .5rem; font-size: 1.05rem; }
p { margin: 0 0 1rem; }
.kicker { margin: 0 0 .25rem; color: var(--accent); font-weight: 600; }
.lead { color: var(--soft); font-size: 1.1rem; }
.scroll { margin: 1.5rem 0 1rem; overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { padding: .6rem 0 0; caption-side: bottom; color: var(--soft); font-size: .875rem;
  text-align: left; }
th, td { padding: .45rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  vertical-align: top; line-height: 1.3; }
thead th { vertical-align: bottom; font-weight: 600; }
th[scope="row"], th.first { padding-left: 0; text-align: left; }
th[scope="row"] { font-weight: 600; }
th.group { text-align: center; }
small { display: block; color: var(--soft); font-size: .8rem; font-weight: 400; }
strong { color: var(--accent); }
figure { margin: 1rem 0; }
figcaption { margin-top: .6rem; color: var(--soft); font-size: .875rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .4rem 1.25rem; margin: 0 0 1rem; }
dt { font-weight: 600; }
dd { margin: 0; }
code { font: .875rem/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { margin: 0 0 1rem; padding: .8rem 1rem; overflow-x: auto; background: var(--card);
  border: 1px solid var(--line); border-radius: .5rem; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line);
  color: var(--soft); font-size: .875rem; }
@media (max-width: 34rem) {
  body { padding: 1.5rem 1rem 2rem; }
  th, td { padding: .4rem .25rem; font-size: .8125rem; }
  tr > :last-child { padding-right: 0; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .75rem; } }
"""


def frame(*, title: str, kicker: str, heading: str, lead: str, body: str, style: str = "") -> str:
    """A whole page.

    Parameters
    ----------
    title, kicker, heading, lead : str
        Plain text of the head of the page.
    body : str
        HTML of all that follows.
    style : str
        Rules for this page, after the common ones.
    """
    words = {"title": title, "kicker": kicker, "heading": heading, "lead": lead}
    return _FRAME.substitute(
        {name: escape(text) for name, text in words.items()},
        style=_STYLE + style,
        body=body,
        version=escape(__version__),
    )

"""The report of one or more suites: one HTML file of tables and figures, complete in itself.

It is a pure function of the suites and the records: what is missing is said to be missing, what
failed says why, and the numbers of the paper stand under a heading of their own.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from .._core.files import StrPath, atomic_write
from .drawing import NEEDS, matplotlib_is_there, svg
from .figures import plot_of
from .html_tables import published_table, score_table
from .page import frame
from .panels import Plot, task_title
from .runner import jobs_of
from .spec import Suite, suite_names
from .store import Record
from .tables import Run, agreements, published, result_table, runs_of

_SIDES = {
    "cross": "Search in the source (cross-domain)",
    "single": "Search in the target (single-domain)",
}
_METRICS = {
    "radius_pr_area": "the field’s “MAP”: area under the precision-recall curve pooled over radii",
    "mean_average_precision": "mean over queries of the average precision of the ranked list",
}
_LEGEND = (
    "<h3>How to read the tables</h3>\n<p>In each column the best mean is in <strong>bold</strong> "
    "and the second best <u>underlined</u>. Below a mean stands its standard deviation over "
    'splits, where there are several, and <span class="few">of 2</span> where it rests on fewer '
    'splits than others. What is <span class="missing">missing</span> has not been run; what '
    '<span class="failed">failed</span> is explained below the tables. Queries always come from '
    "the target.</p>\n<dl>"
    + "".join(f"<dt>{name}</dt><dd>{words}</dd>" for name, words in _METRICS.items())
    + "</dl>"
)
_MANY_ROWS = 14  # longer tables are folded: those of sweeps, which have a figure
_STYLE = """
body { max-width: 76rem; }
header, section > p, .published > p, section > ul { max-width: 50rem; }
h2 { padding-top: 1.5rem; border-top: 1px solid var(--line); }
a { color: var(--accent); }
.scroll { max-width: 100%; margin: .5rem 0 1.5rem; }
.tables { display: flex; flex-wrap: wrap; gap: 0 3rem; }
caption { padding: 0 0 .5rem; caption-side: top; color: var(--ink); text-align: left; }
caption strong { color: inherit; }
caption span { display: inline-block; position: sticky; left: 0; max-width: min(60rem, 88vw); }
table { width: auto; font-size: .875rem; }
th, td { padding: .35rem .5rem; }
.wide { font-size: .8125rem; }
.wide th, .wide td { padding: .35rem .3rem; }
td small { white-space: nowrap; font-size: .75rem; }
.scores th[scope="row"], .scores th.first, .scores thead tr:first-child > td { position: sticky;
  left: 0; max-width: 22rem; background: var(--paper); }
.scores th.first { white-space: nowrap; }
.scores td, .scores thead th + th { min-width: 2.75rem; }
.apart { border-left: 1px solid var(--line); }
th.task { max-width: 12rem; }
thead small { font-weight: 400; }
u { text-decoration-thickness: 1px; text-underline-offset: 3px; }
.missing, .few { color: var(--soft); font-size: .75rem; }
.failed { color: var(--alarm); font-size: .75rem; }
.words td, .words th { text-align: left; }
.words td { overflow-wrap: anywhere; }
.words .number { text-align: right; white-space: nowrap; }
.published { margin: 2rem 0; padding: .25rem 1.1rem .5rem; background: var(--card);
  border-left: 4px solid var(--soft); border-radius: 0 .5rem .5rem 0; }
.published th[scope="row"], .published th.first, .published thead tr:first-child > td {
  background: var(--card); }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr));
  gap: 1.5rem; }
.pairs { grid-template-columns: repeat(auto-fill, minmax(min(24rem, 100%), 1fr));
  max-width: 56rem; }
.panel { max-width: 27rem; break-inside: avoid; }
.panel p { margin: 0 0 .4rem; font-size: .8125rem; line-height: 1.35; }
.panel svg { display: block; width: 100%; height: auto; stroke-linejoin: round; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 0 0 1rem; padding: 0;
  list-style: none; font-size: .875rem; }
.legend svg { height: 1rem; margin-right: .5rem; vertical-align: -.15rem; }
summary { cursor: pointer; margin: .5rem 0; }
.sources code { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; }
@media (max-width: 34rem) {
  .scores th[scope="row"], .scores th.first { max-width: 7rem; padding-right: .4rem; }
  .published { margin: 2rem -.5rem; padding: .25rem .5rem .5rem; }
  table { font-size: .8125rem; }
  .words th small { display: none; } }
@page { size: A4 landscape; margin: 12mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .scroll { overflow: visible; }
  table { font-size: 8pt; }
  th, td { padding: .2rem .3rem; }
  .scores td, .scores thead th + th { min-width: 0; }
  tr, .scores, .published { break-inside: avoid; }
  h2, h3, caption { break-after: avoid; }
  details::details-content { content-visibility: visible; }
  .panels { grid-template-columns: repeat(3, 1fr); }
  .pairs { grid-template-columns: repeat(4, 1fr); max-width: none; } }
"""


class Part(NamedTuple):
    """A suite on the page."""

    id: str  # a suite of one's own may have any name
    suite: Suite
    runs: list[Run]

    @property
    def done(self) -> list[Run]:
        return [run for run in self.runs if run.finished]

    @property
    def argument(self) -> str:
        """What to call it on the command line."""
        name = self.suite.name
        return name if name in suite_names() else shlex.quote(f"{name}.toml")


def write_report(suites: Sequence[Suite], records: Iterable[Record], path: StrPath) -> None:
    """Write the page of some suites, whole or not at all."""
    text = report_page(suites, list(records))
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def report_page(suites: Sequence[Suite], records: list[Record]) -> str:
    """The page as text."""
    parts = [
        Part(f"suite-{i}", suite, runs_of(suite, records)) for i, suite in enumerate(suites, 1)
    ]
    alone = len(parts) == 1
    sections = [
        _overview(parts),
        *(_section(part, records, "Results" if alone else part.suite.title) for part in parts),
        _sources([run.record for part in parts for run in part.runs]),
    ]
    return frame(
        title=f"bridgehash bench: {suites[0].name if alone else 'report'}",
        kicker="bridgehash bench",
        heading=suites[0].title if alone else "Benchmark report",
        lead="Retrieval with binary codes across two domains: "
        "mean and spread over splits of the data, in per cent.",
        body="\n".join(sections),
        style=_STYLE,
    )


def _overview(parts: list[Part]) -> str:
    """What was run, how to repeat it, and how to read the tables."""
    rows = "\n".join(map(_overview_row, parts))
    command = " ".join(["bridgehash bench run", *(part.argument for part in parts)])
    fits = {id(run.record): run for part in parts for run in part.runs}.values()  # some are shared
    done = [run for run in fits if run.finished]
    total = (
        f"In all {len(done):,} {'fit' if len(done) == 1 else 'fits'} finished and "
        f"{len(fits) - len(done):,} failed; fitting and "
        f"scoring took {_duration(_seconds(done))}, added up over all cores."
    )
    return (
        '<section aria-labelledby="what-was-run">\n<h2 id="what-was-run">What was run</h2>\n'
        '<div class="scroll" tabindex="0"><table class="words"><thead><tr>'
        '<th scope="col" class="first">Suite</th><th scope="col" class="number">Fits done</th>'
        '<th scope="col" class="number">Failed</th><th scope="col" class="number">Splits</th>'
        '<th scope="col">Bits</th><th scope="col" class="number">Time</th></tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>\n"
        f"<p>{total} To repeat it, or to run what is missing:</p>\n"
        f"<pre><code>{escape(command)}</code></pre>\n"
        f"{_LEGEND}\n</section>"
    )


def _overview_row(part: Part) -> str:
    suite, done = part.suite, part.done
    lengths = list(dict.fromkeys(run.n_bits for run in part.runs))
    quick = bool(lengths) and not set(lengths) & set(suite.n_bits)
    cells = [
        f"{len(done)}, quick" if quick else f"{len(done)} of {len(jobs_of(suite)):,}",
        str(len(part.runs) - len(done)),
        f"{len({run.seed for run in done})} of {suite.seeds}",
    ]
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    return (
        f'<tr><th scope="row"><a href="#{part.id}">{escape(suite.name)}</a>'
        f"<small>{escape(suite.title)}</small></th>{numbers}"
        f"<td>{', '.join(map(str, lengths)) or 'none yet'}</td>"
        f'<td class="number">{_duration(_seconds(done))}</td></tr>'
    )


def _seconds(runs: Iterable[Run]) -> float:
    return float(sum(sum(run.record["seconds"].values()) for run in runs))


def _duration(seconds: float) -> str:
    """A time for people.

    >>> _duration(7.24), _duration(95), _duration(7300)
    ('7.2 s', '1 min 35 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _section(part: Part, records: list[Record], heading: str) -> str:
    suite = part.suite
    html = [
        f'<section aria-labelledby="{part.id}">\n<h2 id="{part.id}">{escape(heading)}</h2>',
        f"<p>{escape(suite.note)}</p>" if suite.note else "",
        _figure(part, records),
        *(_side(suite, records, side) for side in suite.sides),
        *(f"<p>{escape(line)}</p>" for line in agreements(part.runs)),
        _failures([run for run in part.runs if not run.finished]),
        _published(suite.paper) if suite.paper is not None else "",
    ]
    return "\n".join(filter(None, html)) + "\n</section>"


def _side(suite: Suite, records: list[Record], side: str) -> str:
    """The tables of one side, one for each metric."""
    tables = []
    for metric in suite.metrics:
        table = result_table(suite, records, side, metric)
        title = f"<strong>{escape(metric)}</strong> in per cent"
        html = score_table(suite, table, title)
        if len(table.rows) > _MANY_ROWS:
            summary = f"{escape(metric)}: {len(table.rows)} rows"
            html = f"<details><summary>{summary}</summary>{html}</details>"
        tables.append(html)
    joined = "\n".join(tables)
    return f'<h3>{_SIDES[side]}</h3>\n<div class="tables">\n{joined}\n</div>'


def _failures(runs: list[Run]) -> str:
    """What failed, and why."""
    if not runs:
        return ""
    splits: dict[tuple[str, str], list[int]] = {}
    for run in runs:
        place = f"{run.label} on {task_title(run.task)}, {run.n_bits} bits"
        splits.setdefault((place, str(run.record.get("error"))), []).append(run.seed)
    items = "\n".join(
        f"<li>{escape(place)}, split {', '.join(map(str, seeds))}: "
        f"<code>{escape(error)}</code></li>"
        for (place, error), seeds in splits.items()
    )
    return f"<h3>Failed</h3>\n<ul>\n{items}\n</ul>"


def _published(name: str) -> str:
    """The paper's own numbers, in a box of their own."""
    table = published(name)
    title = "<strong>“MAP”</strong> in per cent"
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    return (
        '<div class="published">\n<h3>Published, on the data of the paper</h3>\n'
        "<p>These numbers are as printed and were not measured here; no spread is given. Where "
        "data or features differ from those above, only the order of methods can be compared. By "
        "its public script the paper’s “MAP” is radius_pr_area.</p>\n"
        f"{published_table(table, title)}\n" + (f"<ul>{notes}</ul>\n" if notes else "") + "</div>"
    )


def _figure(part: Part, records: list[Record]) -> str:
    if part.suite.figure is None:
        return ""
    if not matplotlib_is_there():
        return f"<p>The figure is left out: it needs matplotlib; <code>{escape(NEEDS)}</code></p>"
    plot = plot_of(part.suite, records)
    return _drawn(plot, part.id) if plot else "<p>No fit is finished: there is no figure yet.</p>"


def _drawn(plot: Plot, name: str) -> str:
    """Panels in a grid that fits the screen, with the legend above and the caption below."""
    legend = "".join(
        f"<li>{svg(figure, f'{name}-l{i}')}{escape(words)}</li>"
        for i, (words, figure) in enumerate(plot.legend)
    )
    panels = "\n".join(
        f'<div class="panel"><p>{escape(panel.title)}</p>\n'
        f"{svg(panel.figure, f'{name}-p{i}', escape(panel.words))}</div>"
        for i, panel in enumerate(plot.panels)
    )
    grid = "panels" if len(plot.panels) % 4 else "panels pairs"  # two sides, or twice two
    return (
        "<figure>\n"
        + (f'<ul class="legend">{legend}</ul>\n' if legend else "")
        + f'<div class="{grid}">\n{panels}\n</div>\n'
        f"<figcaption>{escape(plot.caption)}</figcaption>\n</figure>"
    )


def _sources(records: list[Record]) -> str:
    """Data, packages and machines behind the numbers."""
    if not records:
        return ""
    data = sorted({item for record in records for item in record.get("data", {}).items()})
    versions = {
        ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())
        for record in records
    }
    devices = {str(record.get("device", "")) for record in records}
    finished = sorted(str(record["finished"]) for record in records if "finished" in record)
    rows = [
        *(
            (f"<code>{escape(file)}</code>", f"sha256 <code>{escape(sha)}</code>")
            for file, sha in data
        ),
        *(("Packages", escape(text)) for text in sorted(versions)),
        *(("Machine", escape(text)) for text in sorted(devices)),
    ]
    if finished:
        rows.append(("Finished", f"{escape(finished[0])} to {escape(finished[-1])}"))
    listed = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows)
    return (
        '<section aria-labelledby="sources">\n<h2 id="sources">Data and machine</h2>\n'
        f'<dl class="sources">{listed}</dl>\n</section>'
    )

"""The page that the demo leaves behind: one file, nothing loaded from anywhere else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from string import Template

from bridgehash.bench.page import frame
from bridgehash.cli.demo_study import N_BITS, SUBTASKS, Nearest, Result, Study, reading

_COLUMNS = {
    "HoSDR": "search the target",
    "HoCDR": "search the source",
    "HeSDR": "search the target",
    "HeCDR": "search the source",
}
_LABELS = {"none": "no labels", "source": "labels of the source", "both": "labels of both"}

_LEAD = (
    "A digit seen as gradient histograms looks for digits seen as pixels: both become binary codes "
    f"of {N_BITS} bits, which are compared bit by bit."
)
_BODY = Template(
    """<section aria-labelledby="reading">
<h2 id="reading">What came out</h2>
<p class="reading">$reading</p>
<div class="scroll" role="region" aria-labelledby="scores" tabindex="0">
<table>
<caption id="scores">radius_pr_area (the field’s “MAP”), below it mean_average_precision;
both in per cent, the best of each column in bold.</caption>
$table
</table>
</div>
<p>Queries always come from the target. With one feature space (Ho) both domains are pixels; with
two (He) the source is pixels and the target gradient histograms. Labels are those that a method
saw in training. All figures are of one split of the images; another split moves them by several
points.</p>
</section>
<section aria-labelledby="query">
<h2 id="query">One query across feature spaces</h2>
<figure>
<div class="picture" role="region" aria-labelledby="query" tabindex="0">
<img src="$nearest" width="1400" height="680" alt="$nearest_alt">
</div>
<figcaption>The first query and the source images nearest to it, with their distance in bits of
$n_bits. A tick is the right digit, a cross a wrong one; ties stand in the order of the
rows.</figcaption>
</figure>
</section>
<section aria-labelledby="curves">
<h2 id="curves">Precision and recall by Hamming radius</h2>
<figure>
<div class="picture" role="region" aria-labelledby="curves" tabindex="0">
<img src="$curves" width="1400" height="800" alt="$curves_alt">
</div>
<figcaption>All pairs within radius 0, 1, 2, … of a query, pooled over the queries. The area below
a curve is radius_pr_area of the table.</figcaption>
</figure>
</section>
<section aria-labelledby="data">
<h2 id="data">The data</h2>
<dl>
<dt>Source</dt><dd>$n_source handwritten digits as scanned, $d_source pixels each.</dd>
<dt>Target</dt><dd>$n_target other digits, blurred and moved one pixel to the right, as by another
scanner: as pixels, or as histograms of gradient directions, $d_target numbers each.</dd>
<dt>Queries</dt><dd>$n_query more digits of the target, which no method has seen.</dd>
</dl>
<p>The images are the 8 × 8 digits that scikit-learn carries.</p>
</section>
<section aria-labelledby="next">
<h2 id="next">Go on</h2>
$steps
<h3>Files in this folder</h3>
<dl class="files">$files</dl>
</section>"""
)

_STYLE = """
.reading { padding: .9rem 1.1rem; background: var(--card); border-left: 4px solid var(--accent);
  border-radius: 0 .5rem .5rem 0; }
thead tr:first-child > * { padding-bottom: 0; border-bottom: 0; color: var(--soft);
  font-size: .875rem; }
tbody tr:last-child > * { color: var(--soft); font-weight: 400; }
.picture { padding: .9rem; overflow-x: auto; background: #ffffff; border: 1px solid var(--line);
  border-radius: .5rem; }
.picture img { display: block; width: 100%; height: auto; }
.files dt { font-weight: 400; }
@media (max-width: 34rem) {
  thead th + th small { display: none; }
  .picture img { min-width: 30rem; } }
"""


def page(
    study: Study,
    found: tuple[Nearest, ...],
    pictures: Mapping[str, bytes],
    steps: Sequence[tuple[str, str]],
    files: Mapping[str, str],
) -> str:
    """The whole page.

    Parameters
    ----------
    pictures : PNG files named "nearest" and "curves"
    steps : what a command does, and the command as text
    files : what each file of the folder holds, by name
    """
    domains, task = study.domains, study.task
    body = _BODY.substitute(
        n_bits=N_BITS,
        reading=escape(reading(study)),
        table=_table(study),
        nearest=_data_uri(pictures["nearest"]),
        nearest_alt=escape(_nearest_alt(study, found)),
        curves=_data_uri(pictures["curves"]),
        curves_alt=escape(_curves_alt(study)),
        n_source=len(domains.source.y),
        n_target=len(domains.target.y),
        n_query=len(domains.query.y),
        d_source=task.X_source.shape[1],
        d_target=task.X_target.shape[1],
        steps="\n".join(
            f"<h3>{escape(what)}</h3>\n<pre><code>{escape(command)}</code></pre>"
            for what, command in steps
        ),
        files="\n".join(
            f"<dt><code>{escape(name)}</code></dt><dd>{escape(what)}</dd>"
            for name, what in files.items()
        ),
    )
    return frame(
        title="bridgehash demo",
        kicker="bridgehash demo",
        heading="One code for two feature spaces",
        lead=_LEAD,
        body=body,
        style=_STYLE,
    )


def _table(study: Study) -> str:
    """Head and body of the table of scores."""
    heads = "".join(
        f'<th scope="col">{name}<small>{what}</small></th>' for name, what in _COLUMNS.items()
    )
    rows = "\n".join(_row(study, result) for result in study.results)
    chances = "".join(f"<td>{study.chance(subtask):.1f}</td>" for subtask in SUBTASKS)
    return (
        "<thead>\n<tr><td></td>"
        '<th scope="colgroup" class="group" colspan="2">one feature space</th>'
        '<th scope="colgroup" class="group" colspan="2">two feature spaces</th></tr>\n'
        '<tr><th scope="col" class="first">Method<small>labels it saw</small></th>'
        f"{heads}</tr>\n</thead>\n<tbody>\n{rows}\n"
        f'<tr><th scope="row">chance</th>{chances}</tr>\n</tbody>'
    )


def _row(study: Study, result: Result) -> str:
    cells = []
    for subtask in SUBTASKS:
        area = f"{result.area(subtask):.1f}"
        shown = f"<strong>{area}</strong>" if study.best(subtask) is result else area
        cells.append(f"<td>{shown}<small>{result.precision(subtask):.1f}</small></td>")
    name = f"{escape(result.method.name)}<small>{_LABELS[result.method.labels]}</small>"
    return f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>'


def _nearest_alt(study: Study, found: tuple[Nearest, ...]) -> str:
    told = [
        f"{nearest.name}: {nearest.summary()}, digits {', '.join(map(str, nearest.y))} at "
        f"{', '.join(map(str, nearest.distances))} bits."
        for nearest in found
    ]
    return f"The query is a {study.domains.query.y[0]}. Its nearest source images. " + " ".join(
        told
    )


def _curves_alt(study: Study) -> str:
    areas = [
        f"{result.method.name} {result.area('HeCDR'):.0f} and {result.area('HoCDR'):.0f}"
        for result in study.results
    ]
    return (
        "Two plots of precision against recall, with two feature spaces and with one. "
        f"Areas in per cent: {', '.join(areas)}."
    )


def _data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{b64encode(png).decode('ascii')}"

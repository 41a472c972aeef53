"""An evaluation as one page of HTML that needs nothing else: figures, and what each change did to which question."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from .bootstrap import Difference
from .report import ConfigurationResult, EvaluationReport, Hit, Outcome, QuestionResult

_SHOWN_CHANGES = 50
"""Questions of each direction and configuration; the page says how many more there are."""
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; --soft: #8881; --dim: #777; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #f85149; --dim: #999; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1500px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9em; } th { white-space: nowrap; }
.wide { overflow-x: auto; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
small { color: var(--dim); display: block; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); }
.note { border-left: 4px solid var(--bad); padding: .3rem .8rem; background: var(--soft); }
details { border-bottom: 1px solid var(--line); padding: .4rem 0; } summary { cursor: pointer; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; margin: .6rem 0; }
@media (max-width: 800px) { .sides { grid-template-columns: 1fr; } }
.hit { padding: .4rem .6rem; margin: .3rem 0; background: var(--soft); border-left: 4px solid transparent;
       overflow-wrap: anywhere; }
.hit.found { border-color: var(--good); }
blockquote { margin: .3rem 0; padding-left: .8rem; border-left: 3px solid var(--line); overflow-wrap: anywhere; }
"""


def write_page(path: str | Path, report: EvaluationReport, *, metric: str | None = None) -> None:
    """Write the page as UTF-8.

    Args:
        metric: By which questions count as better or worse; default: ``quoted@5`` where there are quotes, else
            ``ndcg@10``.
    """
    Path(path).write_text(page_of(report, metric=metric), "utf-8")


def page_of(report: EvaluationReport, *, metric: str | None = None) -> str:
    """The page as text; everything in it that comes from documents and questions is escaped."""
    by = metric or ("quoted@5" if "quoted@5" in report.baseline.metrics else "ndcg@10")
    title = f"Evaluation of {report.knowledge_base}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{report.questions} questions, {len(report.configurations)} configurations, {report.seconds:.1f} s.</p>",
        *(f'<p class="note">{escape(note)}</p>' for note in report.notes),
        _figures(report),
    ]
    for one in report.configurations[1:]:
        parts.append(_changes(report, one, by))
    parts.append(_never_found(report))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _figures(report: EvaluationReport) -> str:
    metrics = list(report.baseline.metrics)
    head = "".join(f"<th>{escape(name)}</th>" for name in ["configuration", *metrics, "ms p50/p95", "chunks"])
    rows = "".join(_row(one, metrics) for one in report.configurations)
    legend = (
        "Small print: difference to the first configuration with its 95 % interval (paired bootstrap); coloured where "
        "the interval excludes 0. One such interval in twenty does so by chance."
    )
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div><p><small>{escape(legend)}</small></p>'


def _row(one: ConfigurationResult, metrics: Sequence[str]) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in one.settings.items() if f"{name}=" not in one.name)
    cells = [f"{escape(one.name)}{f'<small>{escape(settings)}</small>' if settings else ''}"]
    for name in metrics:
        difference = one.differences.get(name)
        told = f'<small class="{_class(difference)}">{_interval(difference)}</small>' if difference else ""
        cells.append(f"{one.metrics[name]:.3f}{told}")
    cells += [f"{one.latency_p50_ms:.1f} / {one.latency_p95_ms:.1f}", str(one.chunks)]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n"


def _class(difference: Difference) -> str:
    return ("good" if difference.mean > 0 else "bad") if difference.significant else ""


def _interval(difference: Difference) -> str:
    return f"{difference.mean:+.3f}<br>{difference.low:+.3f} to {difference.high:+.3f}"


def _changes(report: EvaluationReport, one: ConfigurationResult, metric: str) -> str:
    changed = report.changed(one.name, metric)
    worse = [pair for pair in changed if pair[1] < 0]
    better = [pair for pair in reversed(changed) if pair[1] > 0]
    same = len(report.values(one.name, metric)) - len(changed)
    head = f"{one.name}: {len(better)} better, {len(worse)} worse, {same} the same by {metric}"
    blocks = [f"<h2>{escape(head)}</h2>"]
    for name, pairs in (("Worse", worse), ("Better", better)):
        if pairs:
            blocks.append(f"<h3>{name}</h3>")
            blocks += [_change(report, one, result, by, metric) for result, by in pairs[:_SHOWN_CHANGES]]
        if len(pairs) > _SHOWN_CHANGES:
            blocks.append(f"<p>{len(pairs) - _SHOWN_CHANGES} further questions are not shown.</p>")
    return "\n".join(blocks)


def _change(report: EvaluationReport, one: ConfigurationResult, result: QuestionResult, by: float, metric: str) -> str:
    before, after = result.outcomes[report.baseline.name], result.outcomes[one.name]
    sign = "good" if by > 0 else "bad"
    sides = _side(report.baseline.name, before, metric) + _side(one.name, after, metric)
    return (
        f'<details><summary><b class="{sign}">{by:+.2f}</b> {escape(result.question)}</summary>'
        f'{_wanted(result)}<div class="sides">{sides}</div></details>'
    )


def _side(name: str, outcome: Outcome, metric: str) -> str:
    hits = "".join(_hit(rank, hit) for rank, hit in enumerate(outcome.hits, 1)) or "<p>nothing found</p>"
    return f"<div><b>{escape(name)}</b> {metric} {outcome.metrics[metric]:.2f}{hits}</div>"


def _hit(rank: int, hit: Hit) -> str:
    found = ' found" title="holds what is wanted' if hit.relevant else ""
    place = f", {hit.place}" if hit.place else ""
    return (
        f'<div class="hit{found}">{rank}. <b>{escape(hit.source)}</b>{escape(place)} '
        f"<small>{escape(hit.chunk_id)}, score {hit.score:.3f}</small>{escape(hit.text)}</div>"
    )


def _wanted(result: QuestionResult) -> str:
    return "<p>Wanted:</p>" + "".join(f"<blockquote>{escape(item)}</blockquote>" for item in result.wanted)


def _never_found(report: EvaluationReport) -> str:
    """Questions for which no configuration found anything among the first ten."""
    lost = [
        result
        for result in report.results
        if not any(outcome.metrics["recall@10"] for outcome in result.outcomes.values())
    ]
    if not lost:
        return "<h2>Every question found something among the first ten hits</h2>"
    first = report.baseline.name
    blocks = [f"<h2>{len(lost)} questions found nothing among the first ten hits, in any configuration</h2>"]
    for result in lost[:_SHOWN_CHANGES]:
        hits = _side(first, result.outcomes[first], "recall@10")
        blocks.append(f"<details><summary>{escape(result.question)}</summary>{_wanted(result)}{hits}</details>")
    if len(lost) > _SHOWN_CHANGES:
        blocks.append(f"<p>{len(lost) - _SHOWN_CHANGES} further questions are not shown.</p>")
    return "\n".join(blocks)

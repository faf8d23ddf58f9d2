"""The page of `irrun conformance`: one file with style and script, which loads nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape

from irrun.conformance.survey import Finding, OperationResult, Survey
from irrun.conformance.worker import Status
from irrun.errors import escape_unprintable
from irrun.formatting import format_count
from irrun.inspection.report.page import fill_template, make_policy, read_asset

__all__ = ["render_survey"]

#: Status -> what the summary calls it.
STATUSES: dict[Status, str] = {
    "agree": "agree with irrun",
    "differ": "differ",
    "refused": "refused by the device",
    "crashed": "crash",
}
#: Reasons of refusals that an operation shows.
MAX_REFUSALS = 8


def render_survey(survey: Survey) -> str:
    """Return the results as HTML.

    Args:
        survey: The results.
    """
    script = read_asset(__package__, "survey.js")
    style = read_asset("irrun.inspection.report", "report.css") + read_asset(__package__, "survey.css")
    minutes, seconds = divmod(round(survey.seconds), 60)
    count = survey.counts.total()
    parts = {
        "policy": make_policy([script], style),
        "title": _escape(f"{survey.device} of OpenVINO {survey.version}"),
        "subtitle": _escape(
            f"{count:,} cases of {len(survey.operations)} operations against irrun, seed {survey.seed}, "
            f"{survey.processor}, {minutes} min {seconds} s"
        ),
        "style": style,
        "script": script,
        "summary": "".join(_format_summary(survey)),
        "head": "".join(_format_head()),
        "rows": "\n".join(map(_format_operation, survey.operations)),
    }
    return fill_template(read_asset(__package__, "page.html"), parts)


def _escape(text: str) -> str:
    return escape(escape_unprintable(text))


def _format_summary(survey: Survey) -> Iterator[str]:
    for status, text in STATUSES.items():
        yield f'<div class="figure {status}"><b>{survey.counts[status]:,}</b><span>{text}</span></div>'
    findings = survey.findings
    unknown = sum(not finding.fault for finding in findings)
    yield f'<div class="figure"><b>{len(findings):,}</b><span>findings, {unknown} not known</span></div>'


def _format_head() -> Iterator[str]:
    for title in ("operation", "category", "cases", *STATUSES, "findings"):
        kind = ' class="category"' if title == "category" else ""
        kind = kind or ("" if title == "operation" else ' class="number"')
        yield f'<th scope="col"{kind}><button type="button">{title}</button></th>'
    yield '<th scope="col" class="shares"><button type="button">shares</button></th>'


def _format_operation(result: OperationResult) -> str:
    counts = result.counts
    unknown = sum(not finding.fault for finding in result.findings)
    data = {
        "cases": counts.total(),
        "agree": counts["agree"],
        "refused": counts["refused"],
        "findings": len(result.findings),
        "unknown": unknown,
    }
    attributes = "".join(f' data-{name}="{value}"' for name, value in data.items())
    numbers = [counts.total(), *(counts[status] for status in STATUSES), len(result.findings)]
    cells = [f"<td><b>{_escape(result.operation)}</b></td>", f'<td class="category">{_escape(result.category)}</td>']
    cells += [f'<td class="number{" zero" * (not number)}">{number}</td>' for number in numbers]
    row = f'<tr>{"".join(cells)}<td class="shares">{_draw_shares(counts)}</td></tr>'
    return f"<tbody{attributes}>{row}{_format_details(result)}</tbody>"


def _draw_shares(counts: Counter[Status]) -> str:
    """Return a bar that shows the shares of the statuses, as an image, since the policy forbids style attributes."""
    x, parts = 0.0, []
    for status in STATUSES:
        width = 150 * counts[status] / max(counts.total(), 1)
        if width:
            parts.append(f'<rect class="{status}" x="{x:.2f}" width="{width:.2f}" height="10"/>')
        x += width
    return f'<svg width="150" height="10" aria-hidden="true">{"".join(parts)}</svg>'


def _format_details(result: OperationResult) -> str:
    if not result.findings and not result.refusals:
        return ""
    parts = list(map(_format_finding, result.findings))
    if result.refusals:
        reasons = [
            f"<li>{format_count(count, 'case')}: {_escape(text)}</li>"
            for text, count in result.refusals.most_common(MAX_REFUSALS)
        ]
        omitted = len(result.refusals) - MAX_REFUSALS
        if omitted > 0:
            reasons.append(f"<li>{format_count(omitted, 'more reason')}</li>")
        parts.append(f'<p>Refused:</p><ul class="refusals">{"".join(reasons)}</ul>')
    titles = [finding.title or finding.text for finding in result.findings]
    title = "; ".join(dict.fromkeys(titles)) or "refused cases"
    return (
        f'<tr class="detail"><td colspan="9"><details><summary>{_escape(title)}</summary>{"".join(parts)}'
        "</details></td></tr>"
    )


def _format_finding(finding: Finding) -> str:
    count = len(finding.numbers)
    lines = [f"{finding.status} in {count} {'case' if count == 1 else 'cases'}: {finding.text}"]
    if finding.fault:
        lines.append(f"Known fault of OpenVINO: {finding.title} ({finding.fault})")
    if finding.confirmation:
        lines.append(finding.confirmation)
    lines.append(f"Smallest case: {finding.case}" if finding.is_reproduced else "Not seen in a case that runs alone")
    paragraphs = "".join(
        f"<p{' class=first' * (not i)}>{_escape(line[0].upper() + line[1:])}</p>" for i, line in enumerate(lines)
    )
    shown = finding.command or " ".join(map(str, finding.files))
    command = f"<code>{_escape(shown)}</code>" if shown else ""
    return f'<div class="finding {finding.status}">{paragraphs}{command}</div>'

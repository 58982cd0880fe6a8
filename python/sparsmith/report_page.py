"""The HTML page of a patched model: one file without scripts, in the style of tools/report/assets/page.css."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable

from sparsmith.model_report import KINDS, ModelReport, StepProfile, facts, kind_rows, summary_rows, unit
from sparsmith.patch import PatchReport, _bytes


def _table(head: Collection[str], rows: Iterable[Iterable[str]], words: Iterable[int]) -> str:
    """``words``: the columns that are text; the others are numbers."""
    def line(cells: Iterable[str], tag: str) -> str:
        kinds = ["" if at in words else ' class="number"' for at, _ in enumerate(head)]
        return "<tr>" + "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>"
                                for cell, kind in zip(cells, kinds, strict=True)) + "</tr>\n"

    return (f'<div class="table"><table><thead>{line(head, "th")}</thead>'
            f'<tbody>{"".join(line(row, "td") for row in rows)}</tbody></table></div>')


def _bar(name: str, step: StepProfile, rest: str, longest_us: float) -> str:
    parts = [(kind, step.us(kind)) for kind in KINDS] + [(rest, step.between_us)]
    return f'<p class="name">{name}, {sum(us for _, us in parts):,.0f} us</p><div class="bar">' + "".join(
        f'<span class="c{at}" style="width:{100 * us / longest_us:.2f}%" title="{kind}: {us:,.1f} us"></span>'
        for at, (kind, us) in enumerate(parts)) + "</div>\n"


def _layers(report: PatchReport) -> str:
    numbers = sorted({tokens for layer in report.layers for tokens in layer.gains})
    gains = [f"{report.gain(tokens):.2f}x at {tokens}" for tokens in numbers if report.gain(tokens)]
    predicted = any(not choice.measured for layer in report.patched for choice in layer.tuned.choices)
    rows = [(layer.name, f"{layer.shape[0]} x {layer.shape[1]}",
             "" if layer.sparsity is None else f"{100 * layer.sparsity:.1f} %",
             *(f"{layer.gains[tokens]:.2f}x" if tokens in layer.gains else "" for tokens in numbers),
             _bytes(layer.dense_bytes), _bytes(layer.bytes),
             layer.choices_text()) for layer in report.layers]
    evidence = "predicted" if predicted else "measured"
    return (f"<p>N is a number of tokens. A gain is dense time over sparse time, {evidence} by tuning. Gain of all "
            f"sparse layers together: {', '.join(gains) or 'not known'}.</p>" +
            _table(["layer", "shape", "zeros", *(f"gain, N = {tokens}" for tokens in numbers), "bytes before", "after",
                    "N: kernels, or why it is dense"], rows, (0, 5 + len(numbers))))


def page(report: ModelReport) -> str:
    steps = [(name, step) for name, step in (("dense", report.dense), ("sparse", report.sparse)) if step]
    longest = max(max(1e3 * step.ms, sum(kernel.us for kernel in step.kernels)) for _, step in steps) or 1.0
    parts = unit(report)
    rest = "between " + parts
    legend = "".join(f'<span><i class="c{at}"></i>{kind}</span>' for at, kind in enumerate((*KINDS, rest)))
    card = "".join(f"<div><dt>{name}</dt><dd>{html.escape(' → '.join(filter(None, (dense, sparse))))}"
                   f"{f' <small>{ratio}</small>' if ratio else ''}</dd></div>"
                   for name, dense, sparse, ratio in summary_rows(report))
    tops = "".join(
        f"<h3>{name}: the longest of {len(step.kernels)} {parts}</h3>" +
        _table(["name", "kind", "us a step", "launches a step"],
               [(kernel.name, kernel.kind, f"{kernel.us:,.1f}", f"{kernel.launches:,.1f}")
                for kernel in step.kernels[:20]], (0, 1)) for name, step in reversed(steps))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>Patched model</title><style>{_STYLE}</style></head><body>
<h1>Patched model</h1><p>{html.escape(facts(report))}. Tuned file: {html.escape(report.patched.tuned_file)}</p>
<div class="card"><dl>{card}</dl><p>A step makes {report.tokens} token{'s' * (report.tokens > 1)}.</p></div>
<h2>What is left of a step</h2><div class="legend">{legend}</div>
{"".join(_bar(name, step, rest, longest) for name, step in steps)}
{_table([f"microseconds, and launches of {parts}", "dense", "sparse"], (row[:3] for row in kind_rows(report)), (0,))}
<h2>Layers</h2>{_layers(report.patched)}
<h2>Longest {parts}</h2>{tops}</body></html>
"""


_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c1f23; --faint: #5c646e; --hair: #d9dde2; --panel: #f6f7f9;
  --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #b07800; --s4: #b4bcc6; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #15181c; --ink: #e4e7eb; --faint: #a3abb5;
  --hair: #353b43; --panel: #1d2127; --s0: #4aa3e0; --s1: #ef7d2b; --s2: #1fc196; --s3: #f0b429; --s4: #50565d; } }
body { margin: 0 auto; padding: 1.5rem 2rem 4rem; max-width: 1440px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; padding-top: .8rem; border-top: 1px solid var(--hair); }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .3rem; }
p { margin: .3rem 0; color: var(--faint); overflow-wrap: anywhere; }
.card { margin: 1rem 0; padding: 1rem 1.2rem .5rem; background: var(--panel); border: 1px solid var(--hair);
  border-radius: 8px; }
dl { display: flex; flex-wrap: wrap; gap: .8rem 2rem; margin: 0 0 .8rem; }
dt, .name, .legend { font-size: .84rem; color: var(--faint); }
dd { margin: 0; font-size: 1.2rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
.bar { display: flex; height: 1.6rem; margin-bottom: .8rem; }
.bar span, .legend i { background: var(--c); print-color-adjust: exact; }
.c0 { --c: var(--s0); } .c1 { --c: var(--s1); } .c2 { --c: var(--s2); } .c3 { --c: var(--s3); } .c4 { --c: var(--s4); }
.table { overflow: auto; max-height: 700px; border: 1px solid var(--hair); border-radius: 6px; margin: .5rem 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .55rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--hair); }
td:first-child { min-width: 26em; overflow-wrap: anywhere; }
td:last-child:not(.number) { min-width: 14em; }
thead th { position: sticky; top: 0; background: var(--panel); }
tbody tr:hover { background: var(--panel); }
.number { text-align: right; white-space: nowrap; }
@media print { body { padding: 0; } .table { max-height: none; overflow: visible; border: 0; }
  thead th { position: static; } tr { break-inside: avoid; } }
"""

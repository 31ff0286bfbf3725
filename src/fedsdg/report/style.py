"""The look of a page and of its plots: light or dark as the reader's system wishes, from phone to wide screen."""

from __future__ import annotations

from fedsdg.report.charts.palette import DARK_PAGE, DARK_SERIES, LIGHT_PAGE, LIGHT_SERIES, variables

COLOURS = f"""
:root{{color-scheme:light dark;{variables(LIGHT_PAGE, LIGHT_SERIES)}}}
@media (prefers-color-scheme:dark){{:root{{{variables(DARK_PAGE, DARK_SERIES)}}}}}
"""

_SERIES = "".join(
    f".line.s{n},.whisker.s{n}{{stroke:var(--s{n})}}.marker.s{n}{{fill:var(--s{n});stroke:var(--s{n})}}"
    f".band.s{n}{{fill:var(--s{n})}}.bar.s{n}{{fill:var(--s{n})}}"
    for n in range(len(LIGHT_SERIES))
)

CHART = f"""
.chart{{display:block;width:100%;height:auto;font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}}
.chart text{{fill:var(--text);font-size:12px}}
.chart .tick{{font-size:11px;fill:var(--quiet);font-variant-numeric:tabular-nums}}
.chart .label{{font-size:11.5px;fill:var(--quiet)}}
.chart .legend,.chart .name{{font-size:11.5px}}
.chart .name,.chart .note{{paint-order:stroke;stroke:var(--page);stroke-width:3px;stroke-linejoin:round}}
.chart .name.ours{{font-weight:650}}
.chart .note{{font-style:italic}}
.chart .end{{text-anchor:end}}.chart .middle{{text-anchor:middle}}
.grid{{stroke:var(--grid)}}.axis{{stroke:var(--quiet)}}
.line{{fill:none;stroke-width:2;stroke-linejoin:round}}
.band{{opacity:.18;stroke:none}}
.whisker{{fill:none;stroke-width:1.4}}.whisker.over{{stroke:var(--text)}}
.marker{{stroke-width:1.4}}.chart .marker.hollow{{fill:var(--page)}}.marker.ringed{{paint-order:stroke}}
.chart .marker.ringed{{stroke:var(--page);stroke-width:2.5}}
.backdrop{{fill:none;stroke:var(--muted);stroke-width:1;opacity:.45}}
.level{{stroke:var(--text);stroke-width:1.6;stroke-dasharray:4 3}}
.moment{{stroke:var(--quiet);stroke-dasharray:2 3}}
.limit{{stroke:var(--text);stroke-width:2.2}}
.bar{{fill:var(--muted)}}
{_SERIES}
"""

PAGE = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:break-word}
main,header,footer{max-width:1120px;margin:0 auto;padding:0 16px}
header{padding-top:28px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .4rem;letter-spacing:-.01em}
h2{font-size:1.4rem;line-height:1.25;margin:.1rem 0 .8rem}
.heading{font-size:1.15rem;margin:2rem 0 .6rem}
p{margin:.5rem 0;max-width:72ch}
.lead,.kicker,figcaption,footer{color:var(--quiet)}
.kicker{font-size:.85rem;margin:0}
section{border-top:1px solid var(--edge);margin-top:32px;padding-top:20px}
nav ul{margin:.6rem 0;padding-left:1.2rem}
a{color:var(--accent)}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,150px),1fr));gap:10px;margin:14px 0;padding:0}
.facts div{background:var(--panel);border-radius:10px;padding:10px 14px}
.facts dt{font-size:.82rem;color:var(--quiet)}
.facts dd{margin:0;font-size:1.3rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums}
.facts dd small{display:block;font-size:.78rem;font-weight:400;color:var(--quiet)}
.gallery>.table{margin:0}
.gallery{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:18px 26px;margin:12px 0}
figure{margin:0;min-width:0;max-width:510px}
.about{font-size:1rem;margin:0 0 2px}
figcaption{font-size:.85rem;line-height:1.4;margin:0 0 6px}
.table{margin:14px 0;min-width:0}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.9rem;min-width:min(100%,320px)}
.caption{font-size:.85rem;line-height:1.4;color:var(--quiet);margin:0 0 2px}
th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--grid);text-align:left;vertical-align:top}
th{font-weight:600;border-bottom-color:var(--edge)}
td.number,th.number{text-align:right}
td.number{font-variant-numeric:tabular-nums;white-space:nowrap}
th{vertical-align:bottom}
td.name{max-width:26rem}
details{margin:6px 0}
summary{cursor:pointer;color:var(--accent);font-size:.85rem;width:fit-content}
details.folded>summary{font-size:1rem}
.callout{background:var(--warn-panel);border-left:4px solid var(--warn);border-radius:6px;
padding:10px 16px;margin:12px 0}
.callout strong{color:var(--warn)}
footer{font-size:.85rem;padding-top:26px;padding-bottom:36px}
@media (max-width:480px){body{font-size:15px}h1{font-size:1.45rem}h2{font-size:1.2rem}
.facts{grid-template-columns:1fr 1fr}
table{font-size:.85rem}th,td{padding-right:9px}}
@media print{details{display:none}section{break-inside:auto}figure{break-inside:avoid}}
"""

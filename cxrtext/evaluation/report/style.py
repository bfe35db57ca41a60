"""How the page looks: light and dark, on a phone, on a wide screen and on paper."""

LIGHT = (
    "--ink:#1d2329;--note:#56616c;--line:#d9dee3;--soft:#f4f6f8;--page:#fff;--accent:#0072b2;"
    "--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b0447f;--c4:#a67c00;--c5:#3a9bd4;--c6:#5b5b5b;"
    "--c7:#8c564b;--l0:#c3ccd4;--l1:#7fb2d6;--l2:#2f86bf;--l3:#c9730a;--l4:#a32a00"
)
DARK = (
    "--ink:#e4e8ec;--note:#9ba7b2;--line:#39424b;--soft:#1b2128;--page:#12161b;--accent:#63b3e6;"
    "--c0:#63b3e6;--c1:#ff8f4d;--c2:#35c79b;--c3:#e38fbd;--c4:#e5bd3b;--c5:#9ad3f5;--c6:#b7b7b7;"
    "--c7:#c9978c;--l0:#47525d;--l1:#3f7fa8;--l2:#63b3e6;--l3:#f0a04b;--l4:#ffd27a"
)

_COLOURS = "".join(
    f"svg .line.c{i}{{stroke:var(--c{i})}}svg .dot.c{i},svg .fill.c{i}{{fill:var(--c{i})}}"
    f".key.c{i}{{background:var(--c{i})}}"
    for i in range(8)
)
_LEVELS = "".join(
    f"svg.levels .dot.c{i}{{fill:var(--l{i})}}.key.l{i}{{background:var(--l{i})}}" for i in range(5)
)

CSS = (
    f"""
:root{{color-scheme:light dark;{LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}
@media print{{:root{{color-scheme:light;{LIGHT}}}}}
{_COLOURS}{_LEVELS}
"""
    + """
*{box-sizing:border-box}
body{margin:0 auto;padding:2.2rem 1.25rem 4rem;max-width:70rem;color:var(--ink);
background:var(--page);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .4rem}
h2{font-size:1.25rem;margin:3rem 0 .7rem;padding-top:.9rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.8rem 0 .3rem}
p{max-width:47rem;margin:.5rem 0}.note,figcaption{color:var(--note);font-size:.87rem}
code{font-size:.9em;overflow-wrap:anywhere}a{color:var(--accent)}
nav{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:1.2rem 0 0;font-size:.9rem}
nav a{text-decoration:none}nav a:hover{text-decoration:underline}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.2rem,1fr));gap:.7rem;
margin:1.4rem 0 0;padding:0}
.tiles div{background:var(--soft);border-radius:.5rem;padding:.7rem .9rem}
.tiles dt{color:var(--note);font-size:.8rem}.tiles dd{margin:0;font-size:1.45rem;font-weight:600;
font-variant-numeric:tabular-nums;line-height:1.3}
.tiles small{display:block;color:var(--note);font-size:.78rem;font-weight:400}
.warn{border-left:3px solid var(--c1);background:var(--soft);padding:.6rem .9rem;margin:1rem 0;
max-width:none;border-radius:0 .4rem .4rem 0}
.wide{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;width:100%;font-size:.87rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.9rem 0 .35rem}
th,td{padding:.34rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left;padding-left:0}
th{font-weight:600;vertical-align:bottom;border-bottom:1.5px solid var(--note)}
td small{color:var(--note);font-size:.88em}
table.dense td small{display:block;line-height:1.25}table.dense td{vertical-align:top}
table.dense th{white-space:normal}table.dense td:first-child{white-space:normal;min-width:9rem}
tr.strong td{font-weight:600}tr.strong td small{font-weight:400}
table.words td,table.words th{text-align:left;white-space:normal;vertical-align:top}
table.words td:first-child{font-weight:600;white-space:nowrap;padding-right:1.4rem}
figure{margin:1.4rem 0}figcaption{max-width:47rem;margin-top:.35rem}
.charts{display:flex;flex-wrap:wrap;gap:.6rem 1rem;align-items:flex-start}
.charts svg{flex:0 1 auto;width:100%;height:auto}
.legend{display:flex;flex-wrap:wrap;gap:.15rem 1.1rem;font-size:.85rem;margin:.1rem 0 .5rem}
.key{display:inline-block;width:.75rem;height:.75rem;border-radius:.15rem;margin-right:.4rem;
vertical-align:-.06rem}
svg text{font:11px system-ui,sans-serif;fill:var(--note)}svg .title{font-size:12.5px;
font-weight:600;fill:var(--ink)}svg .cell{fill:var(--ink);font-size:10px}
svg .grid{stroke:var(--line);stroke-width:1}svg .line{fill:none;stroke-width:1.9;
stroke-linejoin:round}svg .reference{fill:none;stroke:var(--note);stroke-dasharray:4 3}
svg .dot{stroke:var(--page);stroke-width:.8}
.sheet{display:grid;gap:1rem 1.3rem;margin:.6rem 0 1.4rem;
grid-template-columns:repeat(auto-fill,minmax(19rem,1fr))}
.sheet.small{grid-template-columns:repeat(auto-fill,minmax(8.3rem,1fr));gap:.7rem}
.sheet figure{margin:0}.sheet .pair{display:flex;gap:3px}
.sheet img{display:block;width:100%;min-width:0;height:auto;border-radius:.25rem;background:#000}
.sheet.small img{aspect-ratio:1;object-fit:contain}
.sheet figcaption b{display:block;color:var(--ink);font-weight:600}
.sheet .right img{outline:3px solid var(--c2);outline-offset:-3px}
footer{margin-top:3rem;padding-top:.9rem;border-top:1px solid var(--line);color:var(--note);
font-size:.87rem}
@media (max-width:40rem){body{padding:1.2rem .9rem 3rem}th,td{padding:.3rem .4rem}
.sheet{grid-template-columns:1fr}}
@media print{body{max-width:none;padding:0;font-size:10.5pt}nav{display:none}
h2{break-after:avoid}figure,tr,.tiles div{break-inside:avoid}.wide{overflow:visible}
table{font-size:8.5pt}th,td{padding:.2rem .3rem}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
)

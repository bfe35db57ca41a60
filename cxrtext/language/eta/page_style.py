"""How the page looks: from a phone to a wide screen."""

CSS = """
:root { color-scheme: light; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 72rem; color: #222;
  background: #fff; font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h1 sup { font-size: 0.65em; line-height: 0; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 0.5rem; }
p { max-width: 46rem; }
.note { color: #595959; font-size: 0.9rem; }
.figures { display: grid; gap: 1.75rem; margin-top: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(27rem, 100%), 1fr)); }
figure { margin: 0; }
figure img { width: 100%; height: auto; }
figcaption { color: #595959; font-size: 0.9rem; max-width: 36rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: 0.4rem 0.7rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #ddd; }
th { font-weight: 600; vertical-align: bottom; border-bottom: 2px solid #767676; }
thead th small { display: block; font-weight: 400; color: #595959; }
thead tr:first-child th[colspan] { text-align: center; border-bottom: 1px solid #ddd; }
tbody tr:last-child td { font-weight: 600; border-bottom: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.6rem 1.25rem; }
dt { font-weight: 600; white-space: nowrap; }
dt small { display: block; font-weight: 400; color: #595959; }
dd { margin: 0; }
dd ul { margin: 0; padding-left: 1.1rem; }
dd li { overflow-wrap: anywhere; }
@media (max-width: 36rem) {
  dl { grid-template-columns: 1fr; gap: 0.25rem; } dd { margin-bottom: 0.9rem; }
  th, td { padding: 0.35rem 0.45rem; } table { font-size: 0.85rem; } }
"""

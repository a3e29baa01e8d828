# SPDX-License-Identifier: BSD-3-Clause
"""What all comparisons write: a JSON file of {meta, results}, and a page of one file with tables and charts."""
import html
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLORS = ["#06c", "#c50", "#084", "#808", "#a80", "#c06", "#088", "#555", "#630"]
STYLE = """body{font:16px/1.5 sans-serif;max-width:84em;margin:2em auto;padding:0 1em}td,th{padding:.2em .8em;text-align:right}
td:first-child,th:first-child{text-align:left}table{border-collapse:collapse;margin:1em 0}tr:nth-child(even){background:#f2f2f2}
svg{max-width:44em;width:100%}svg text{font-size:13px}td:first-child{white-space:nowrap}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(25em,1fr));gap:0 1.5em}polyline{fill:none;stroke-width:2}.grid{stroke:#ddd}.one{stroke:#888}
.bar{display:flex;gap:.6em;align-items:center}.bar span{width:18em}.whole{background:#bcd;height:1.1em}.part{background:#06c;height:100%}"""


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} B"


def time_text(microseconds):
    return f"{microseconds:.2f}" if microseconds < 10 else f"{microseconds:.1f}" if microseconds < 1000 else f"{microseconds:.0f}"


def summary(values, within=None):
    """The median and the quartiles of several runs, and all of them. The quartiles of one run are those within it."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    if len(values) == 1 and within:
        (low, high), = within
    return {"median": median, "quartiles": [low, high], "all": values}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.platform(), "commit": commit.stdout.strip()}


def table(rows):
    """Rows of texts, the heading first."""
    cells = lambda row, tag: "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row) + "</tr>"
    return "<table>" + "\n".join(cells(row, "td" if number else "th") for number, row in enumerate(rows)) + "</table>"


def print_table(rows):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))


def ticks(low, high):
    """Round values from low to high or a bit beyond, for a logarithmic axis: decades, or where those are few 1, 2, 5."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [1] if len(decades) > 4 else [1, 2, 5]
    values = [float(f"{step}e{decade}") for decade in decades for step in steps]
    first = max((i for i, value in enumerate(values) if value <= low * 1.0001), default=0)
    last = min((i for i, value in enumerate(values) if value >= high * 0.9999), default=len(values) - 1)
    return values[first:max(last, first + 1) + 1]


def chart(title, sizes, series, dashed=(), unit="µs", bands={}, marks={}, across=None):
    """Lines over the size, both axes logarithmic: {name: [value or None for each size]}. As SVG.

    across: how a value of the horizontal axis is written, if it is no size of bytes; bands: {name: [(low, high) or None for each size]}, behind the lines; marks: {name: sizes} with a circle."""
    width, height, left, bottom = 660, 340, 74, 34
    values = [value for line in series.values() for value in line if value]
    if not values:
        return ""
    grid = ticks(min(values), max(values))
    low, high = math.log10(grid[0]), math.log10(grid[-1])
    sizes = [max(1, size) for size in sizes]
    octaves = math.log2(sizes[-1] / sizes[0]) or 1

    def x(size):
        return left + math.log2(max(1, size) / sizes[0]) / octaves * (width - left - 30)

    def y(value):
        place = min(1.0, max(0.0, (math.log10(value) - low) / (high - low)))
        return height - bottom - place * (height - bottom - 16)
    lines = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}">']
    for value in grid:
        lines.append(f'<line x1="{left}" y1="{y(value):.1f}" x2="{width - 30}" y2="{y(value):.1f}" class="{"one" if not unit and value == 1 else "grid"}"/>'
                     f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g} {unit}</text>')
    powers = [1 << power for power in range(math.ceil(math.log2(sizes[0])), math.floor(math.log2(sizes[-1])) + 1)]
    for size in powers[::max(1, math.ceil(len(powers) / 9))]:
        lines.append(f'<line x1="{x(size):.1f}" y1="16" x2="{x(size):.1f}" y2="{height - bottom}" class="grid"/>'
                     f'<text x="{x(size):.1f}" y="{height - 12}" text-anchor="middle">{across.format(size) if across else size_text(size)}</text>')
    colors = dict(zip(series, COLORS))
    for name, band in bands.items():
        there = [(size, *pair) for size, pair in zip(sizes, band) if pair]
        outline = [(size, top) for size, _, top in there] + [(size, low_) for size, low_, _ in reversed(there)]
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in outline)
        lines.append(f'<polygon fill="{colors[name]}" fill-opacity=".18" points="{points}"/>')
    for name, line in series.items():
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in zip(sizes, line) if value)
        dashes = ' stroke-dasharray="6 4"' if name in dashed else ""
        lines.append(f'<polyline stroke="{colors[name]}"{dashes} points="{points}"><title>{html.escape(name)}</title></polyline>')
        for size, value in zip(sizes, line):
            if value and size in marks.get(name, ()):
                lines.append(f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="5" fill="none" stroke="{colors[name]}" stroke-width="2">'
                             f"<title>{html.escape(name)}, {size} B</title></circle>")
    legend = " &nbsp; ".join(f'<b style="color:{colors[name]}">{"┄" if name in dashed else "―"} {html.escape(name)}</b>' for name in series)
    return f"<div><h3>{html.escape(title)}</h3><p>{legend}</p>" + "\n".join(lines + ["</svg></div>"])


def side_by_side(charts):
    return '<div class="charts">' + "\n".join(charts) + "</div>"


def write(folder, name, meta, results, title, parts, **more):
    """FOLDER/NAME.json, with whatever there is beside the results, and FOLDER/NAME.html."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"meta": meta, **more, "results": results}, indent=1) + "\n")
    (folder / f"{name}.html").write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
        f"<h1>{html.escape(title)}</h1>\n" + "\n".join(parts) + "</html>\n")

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
COLORS = ["#06c", "#c50", "#084", "#808", "#555"]
STYLE = """body{font:16px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}td,th{padding:.2em .8em;text-align:right}
td:first-child,th:first-child{text-align:left}table{border-collapse:collapse;margin:1em 0}tr:nth-child(even){background:#f2f2f2}
svg{max-width:44em;width:100%}svg text{font-size:11px}polyline{fill:none;stroke-width:2}.grid{stroke:#ddd}
.bar{display:flex;gap:.6em;align-items:center}.bar span{width:18em}.whole{background:#bcd;height:1.1em}.part{background:#06c;height:100%}"""


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def time_text(microseconds):
    return f"{microseconds:.2f}" if microseconds < 10 else f"{microseconds:.1f}" if microseconds < 1000 else f"{microseconds:.0f}"


def summary(values):
    """The median and the quartiles of several runs, and all of them."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
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


def chart(title, sizes, series, dashed=()):
    """Lines over the size, both axes logarithmic: {name: [microseconds or None for each size]}. As SVG."""
    width, height, left, bottom = 660, 340, 64, 34
    values = [value for line in series.values() for value in line if value]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    across = math.log2(sizes[-1] / sizes[0]) or 1

    def x(size):
        return left + math.log2(size / sizes[0]) / across * (width - left - 20)

    def y(value):
        return height - bottom - (math.log10(value) - low) / (high - low) * (height - bottom - 16)
    lines = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}">']
    for power in range(low, high + 1):
        lines.append(f'<line x1="{left}" y1="{y(10 ** power):.1f}" x2="{width - 20}" y2="{y(10 ** power):.1f}" class="grid"/>'
                     f'<text x="4" y="{y(10 ** power) + 4:.1f}">{10 ** power:g} µs</text>')
    step = max(1, math.ceil(len(sizes) / 9))
    for size in sizes[::step]:
        lines.append(f'<text x="{x(size):.1f}" y="{height - 12}" text-anchor="middle">{size_text(size)}</text>')
    for (name, line), color in zip(series.items(), COLORS):
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in zip(sizes, line) if value)
        dashes = ' stroke-dasharray="6 4"' if name in dashed else ""
        lines.append(f'<polyline stroke="{color}"{dashes} points="{points}"><title>{html.escape(name)}</title></polyline>')
    legend = " ".join(f'<b style="color:{color}">{html.escape(name)}</b>' for name, color in zip(series, COLORS))
    return f"<h3>{html.escape(title)}</h3><p>{legend}</p>" + "\n".join(lines + ["</svg>"])


def write(folder, name, meta, results, title, parts):
    """FOLDER/NAME.json and FOLDER/NAME.html."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"meta": meta, "results": results}, indent=1) + "\n")
    (folder / f"{name}.html").write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
        f"<h1>{html.escape(title)}</h1>\n" + "\n".join(parts) + "</html>\n")

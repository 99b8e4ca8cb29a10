"""An SVG of bus bandwidth by message size, both axes logarithmic, with the limit as a dashed line. Standard library only."""
import html
import math

WIDTH, HEIGHT = 900, 560
LEFT, RIGHT, TOP, BOTTOM = 80, 220, 50, 60
COLORS = ["#0b6e4f", "#1f77b4", "#8c6bb1", "#d62728", "#7f7f7f", "#e6850e"]    # told apart in grey by their marks, too
MARKS = ["circle", "square", "triangle", "diamond", "circle", "square"]


def size_text(size):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def mark(kind, x, y, color):
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>'
    if kind == "square":
        return f'<rect x="{x - 3.2:.1f}" y="{y - 3.2:.1f}" width="6.4" height="6.4" fill="{color}"/>'
    points = {"triangle": ((0, -4.5), (4, 3.2), (-4, 3.2)), "diamond": ((0, -4.6), (4.6, 0), (0, 4.6), (-4.6, 0))}[kind]
    return f'<polygon points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points)}" fill="{color}"/>'


class Axes:
    def __init__(self, sizes, values):
        self.low_size, self.high_size = min(sizes), max(sizes)
        self.low = 10 ** math.floor(math.log10(min(values)))
        self.high = 10 ** math.ceil(math.log10(max(values) * 1.05))
        self.sizes = sizes

    def x(self, size):
        span = math.log2(self.high_size / self.low_size) or 1
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log2(size / self.low_size) / span

    def y(self, value):
        span = math.log10(self.high / self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log10(value / self.low) / span

    def draw(self):
        parts = []
        every = max(1, math.ceil(len(self.sizes) / 8))
        for size in sorted(self.sizes)[::every]:
            x = self.x(size)
            parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" class="grid"/>')
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{size_text(size)}</text>')
        decade = self.low
        while decade <= self.high * 1.0001:
            y = self.y(decade)
            parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" class="grid"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{decade:g}</text>')
            decade *= 10
        middle = (TOP + HEIGHT - BOTTOM) / 2
        parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle">message size</text>')
        parts.append(f'<text x="22" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 22 {middle:.0f})">'
                     "bus bandwidth (GB/s)</text>")
        return parts


def plot(title, series, limit, limit_name):
    """`series`: {name: {size: GB/s}}; `limit`: {size: GB/s}, or empty. Returns the SVG's text."""
    drawn = {name: {s: v for s, v in points.items() if v > 0} for name, points in series.items()}
    sizes = sorted({size for points in drawn.values() for size in points})
    values = [value for points in [*drawn.values(), limit] for value in points.values()]
    axes = Axes(sizes, values)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
             'font-family="sans-serif" font-size="13">',
             "<style>.grid{stroke:#dddddd;stroke-width:1} text{fill:#222222}</style>",
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="28" font-size="16" font-weight="bold">{html.escape(title)}</text>', *axes.draw()]

    def line(points, color, dashes=""):
        where = " ".join(f"{axes.x(size):.1f},{axes.y(value):.1f}" for size, value in sorted(points.items()))
        return f'<polyline points="{where}" fill="none" stroke="{color}" stroke-width="2" {dashes}/>'

    legend_x, legend_y = WIDTH - RIGHT + 20, TOP + 10
    if limit:
        dashes = 'stroke-dasharray="7 5"'
        parts.append(line(limit, "#111111", dashes))
        parts.append(f'<line x1="{legend_x}" y1="{legend_y}" x2="{legend_x + 28}" y2="{legend_y}" stroke="#111111" '
                     f'stroke-width="2" {dashes}/>')
        parts.append(f'<text x="{legend_x + 36}" y="{legend_y + 4}">{html.escape(limit_name)}</text>')
    for index, (name, points) in enumerate(drawn.items()):
        color, kind = COLORS[index % len(COLORS)], MARKS[index % len(MARKS)]
        parts.append(line(points, color))
        parts += [mark(kind, axes.x(size), axes.y(value), color) for size, value in sorted(points.items())]
        y = legend_y + 24 * (index + 1)
        parts.append(f'<line x1="{legend_x}" y1="{y}" x2="{legend_x + 28}" y2="{y}" stroke="{color}" stroke-width="2"/>')
        parts.append(mark(kind, legend_x + 14, y, color))
        parts.append(f'<text x="{legend_x + 36}" y="{y + 4}">{html.escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])

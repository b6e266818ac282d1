"""The charts of the report, as SVG texts that stand by themselves. Same tables, same bytes.

Wrinkle: without matplotlib, as on a bare cluster, every chart is '' and the report says so. Its settings hold
for the whole process, so that one chart is drawn at a time.
"""

import io
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from audit.regular import UNREACHED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Row = Mapping[str, Any]

INK: Final = "#22302a"
FAINT: Final = "#d8ded9"
TREE_GREEN: Final = "#1b7f4d"
OTHER: Final = "#8d99a6"
LEVELS: Final = ("#0f5132", "#2f9e68", "#9bd3b4", "#cfe8d9", "#b7c4bc", OTHER)
_THEMED: Final = {
    INK: "currentColor",
    FAINT: f"var(--line, {FAINT})",
    TREE_GREEN: f"var(--leaf, {TREE_GREEN})",
    LEVELS[0]: f"var(--level, {LEVELS[0]})",
}
"""Colours that follow the page where it is dark; a chart by itself has them as they are."""
LINES: Final = ("#1b7f4d", "#c0504d", "#d9902f", "#4f6bb0", "#7d5ba6", "#5b6b73")
LEVEL_NAMES: Final = ("root", "first level below", "second level", "third level", "further levels")
_NO_LEVEL: Final = len(LEVEL_NAMES)
MOST_REGIONS: Final = 24
STEPS: Final = (1, 2, 3, 4, 6, 12, 24, 48, 96, 168, 336, 1_000, 10_000, 10**9)
"""Hours, or days, between two labels of the time axis."""
AN_HOUR: Final = timedelta(hours=1)
A_DAY: Final = timedelta(days=1)
MOST_HOURS: Final = 24 * 31
LABEL_GAP: Final = 4.0
"""Labels of the growth curve stand at least so many times apart, so that none hides another."""
RAISED: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


_drawing: Final = threading.Lock()


def available() -> bool:
    return find_spec("matplotlib") is not None


def _draw(width: float, height: float, *paints: "Callable[[Axes], None]") -> str:
    """An SVG with a set of axes, side by side, for each of `paints` to fill."""
    if not available():
        return ""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style = {
        "svg.hashsalt": "sapwood",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.edgecolor": FAINT,
        "axes.facecolor": "none",
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with _drawing, mpl.rc_context(style):  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="none")
        for axes, paint in zip(figure.subplots(1, len(paints), squeeze=False)[0], paints, strict=True):
            paint(axes)
        text = io.StringIO()
        # `savefig` would draw all of it twice, the first time for nothing but its layout.
        FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})  # type: ignore[no-untyped-call]
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace("sans-serif", "inherit")
    for colour, name in _THEMED.items():
        svg = svg.replace(colour, name)
    return svg


def _powers_of_ten(axis: "Axis") -> None:
    """Label a log scale with plain text. Wrinkle: matplotlib's own labels are formulas, and to set them takes
    a third of a chart's time."""
    axis.set_major_formatter(lambda value, _place: "10" + str(round(math.log10(value))).translate(RAISED))
    axis.set_minor_formatter("")


def volume_over_time(rows: Iterable[Row]) -> str:
    """Advisories an hour, of a log of more than `MOST_HOURS` a day, stacked by level. `rows`: of
    volume_by_hour_level."""
    timed = [row for row in rows if row["hour"] is not None]
    if not timed:
        return ""
    seen = {row["hour"] for row in timed}
    hourly = max(seen) - min(seen) < MOST_HOURS * AN_HOUR
    times = _times(seen if hourly else {_day(hour) for hour in seen}, AN_HOUR if hourly else A_DAY)
    counts: Counter[tuple[datetime, int]] = Counter()
    for row in timed:
        level = _NO_LEVEL if row["depth"] is None else min(row["depth"], _NO_LEVEL - 1)
        counts[row["hour"] if hourly else _day(row["hour"]), level] += row["advisories"]
    levels = sorted({level for _, level in counts})

    def paint(axes: "Axes") -> None:
        bottom = [0] * len(times)
        places = range(len(times))
        for index, level in enumerate(levels):
            heights = [counts[time, level] for time in times]
            name = "not in the deployment" if level == _NO_LEVEL else LEVEL_NAMES[level]
            axes.bar(places, heights, 0.86, bottom, color=LEVELS[index], label=name)
            bottom = [low + high for low, high in zip(bottom, heights, strict=True)]
        step = next(step for step in STEPS if len(times) <= 13 * step)
        days = {time.date() for time in times}
        pattern = "%d %b\n%Y" if not hourly else "%H:%M" if len(days) == 1 else "%H:%M\n%d %b"
        axes.set_xlabel(f"{min(days)}, UTC" if len(days) == 1 else f"{min(days)} to {max(days)}, UTC")
        axes.set_xticks(list(places)[::step], [time.strftime(pattern) for time in times[::step]])
        axes.set_xlim(-0.6, max(len(times) - 0.4, 3))
        axes.set_ylim(0, max(bottom) * 1.08)
        axes.set_ylabel(f"advisories {'an hour' if hourly else 'a day'}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.grid(True, color=FAINT)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, ncols=min(len(levels), 5), loc="lower left", bbox_to_anchor=(0, 1))

    return _draw(9.6, 3.2, paint)


def _day(hour: datetime) -> datetime:
    return hour.replace(hour=0)


def _times(seen: set[datetime], unit: timedelta) -> list[datetime]:
    """Every one from the first to the last, quiet ones too; of very long logs only those seen."""
    first, last = min(seen), max(seen)
    count = round((last - first) / unit) + 1
    return [first + unit * number for number in range(count)] if count <= MOST_HOURS else sorted(seen)


def spillage_map(rows: Sequence[Row], regions: Sequence[str]) -> str:
    """Spilled advisories from region (rows) to region (columns). `rows`: of spillage_regions."""
    if not rows:
        return ""
    spilled: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["origin_region"] or "root", row["region"] or "root")
        spilled[key] = spilled.get(key, 0) + row["advisories"]
    hit = sorted({name for key in spilled for name in key})
    names = (hit + [name for name in regions if name not in hit])[:MOST_REGIONS]
    worst = max(spilled.values())

    def paint(axes: "Axes") -> None:
        import matplotlib as mpl

        grid = [[spilled.get((source, target), 0) for target in names] for source in names]
        reds = mpl.colormaps["Reds"].with_extremes(under="white")
        axes.imshow(grid, cmap=reds, vmin=0.5, vmax=max(worst, 1), aspect="auto")
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("received in")
        axes.set_ylabel("consumer in")
        for y, line in enumerate(grid):
            for x, value in enumerate(line):
                colour = "white" if value > worst * 0.6 else (INK if value else OTHER)
                axes.text(x, y, f"{value:,}" if value else "·", ha="center", va="center", color=colour)

    side = 1.6 + 0.42 * len(names)
    return _draw(min(9.6, side + 2), min(8.0, side), paint)


def alternatives(rows: Sequence[Row]) -> str:
    """Advisories when all consumers come, by scheme, on a log scale. `rows`: of what_if."""
    shown = sorted((row for row in rows if row["added"]), key=lambda row: row["added"])
    if not shown:
        return ""

    def paint(axes: "Axes") -> None:
        places = range(len(shown))
        colours = [
            TREE_GREEN if row["scheme"] == "tree" else OTHER if row["root_knows"] else FAINT for row in shown
        ]
        axes.barh(places, [row["added"] for row in shown], color=colours, height=0.62)
        axes.set_xscale("log")
        _powers_of_ten(axes.xaxis)
        axes.set_yticks(places, [_scheme(row) for row in shown])
        tree = next((row["added"] for row in shown if row["scheme"] == "tree"), 0)
        for place, row in zip(places, shown, strict=True):
            times = f" · {row['added'] / tree:,.1f} x" if tree and row["scheme"] != "tree" else ""
            axes.text(row["added"] * 1.12, place, f"{row['added']:,}{times}", va="center")
        least, most = max(0.5, shown[0]["added"] / 3), shown[-1]["added"]
        axes.set_xlim(least, most * (most / least) ** 0.45)
        axes.set_xlabel("advisories delivered when all consumers come")
        axes.xaxis.grid(True, color=FAINT)
        axes.set_axisbelow(True)
        axes.invert_yaxis()

    return _draw(9.6, 0.7 + 0.36 * len(shown), paint)


def _scheme(row: Row) -> str:
    if row["scheme"] == "tree":
        return "this tree"
    return str(row["scheme"]) + ("" if row["root_knows"] else "  (does not reach)")


def growth(curves: Mapping[str, Sequence[tuple[int, int]]], here: int) -> str:
    """Advisories against stores, both on log scales. `curves`: by scheme; `here`: the stores there are
    now."""

    def paint(axes: "Axes") -> None:
        lowest = 0.0
        for index, (name, points) in enumerate(curves.items()):
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            label = max(float(ys[-1]), lowest * LABEL_GAP)
            lowest = label
            axes.plot(xs, ys, color=LINES[index % len(LINES)], linewidth=2.4 if not index else 1.6)
            axes.annotate(
                name,
                (xs[-1], label),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                color=LINES[index % len(LINES)],
                annotation_clip=False,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        _powers_of_ten(axes.xaxis)
        _powers_of_ten(axes.yaxis)
        if here:
            axes.axvline(here, color=INK, linewidth=0.8, linestyle=(0, (4, 4)))
            axes.annotate("now", (here, axes.get_ylim()[1]), xytext=(4, -10), textcoords="offset points")
        axes.set_xlabel("stores")
        axes.set_ylabel("advisories for one consumer a store")
        axes.grid(True, color=FAINT)

    return _draw(9.6, 3.8, paint)


class Panel(NamedTuple):
    """`laws`: advisories by scheme; `counted`: the same by (scheme, 'simulated' or 'measured')."""

    title: str
    laws: Mapping[str, int]
    counted: Mapping[tuple[str, str], int]


MARKS: Final = {"simulated": ("D", "#f2b705"), "measured": ("o", "#c0504d")}


def reference(panels: Sequence[Panel]) -> str:
    """What the laws say, as bars, and what was counted, as marks on them; a log scale for each panel."""

    def painter(panel: Panel, first: bool) -> "Callable[[Axes], None]":
        return lambda axes: _paint_reference(axes, panel, first)

    paints = [painter(panel, not index) for index, panel in enumerate(panels)]
    return _draw(9.6, 1.2 + 0.34 * max(len(panel.laws) for panel in panels), *paints)


def _paint_reference(axes: "Axes", panel: Panel, first: bool) -> None:
    places = range(len(panel.laws))
    colours = [TREE_GREEN if scheme == "tree" else OTHER for scheme in panel.laws]
    axes.barh(places, list(panel.laws.values()), color=colours, height=0.62)
    for how, (marker, colour) in MARKS.items():
        found = [
            (panel.counted[scheme, how], place)
            for place, scheme in enumerate(panel.laws)
            if (scheme, how) in panel.counted
        ]
        if found:
            xs, ys = zip(*found, strict=True)
            axes.scatter(xs, ys, s=52, marker=marker, color=colour, edgecolor="white", zorder=3, label=how)
    most = max(panel.laws.values())
    axes.set_xscale("log")
    _powers_of_ten(axes.xaxis)
    axes.set_xlim(0.5 * min(panel.laws.values()), most * (most / min(panel.laws.values())) ** 0.45)
    for place, law in enumerate(panel.laws.values()):
        axes.annotate(
            f"{law:,}", (law, place), xytext=(8, 0), textcoords="offset points", va="center", zorder=4
        )
    axes.set_yticks(places, [_label(scheme) if first else "" for scheme in panel.laws])
    axes.set_title(panel.title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel("advisories")
    axes.xaxis.grid(True, color=FAINT)
    axes.set_axisbelow(True)
    axes.invert_yaxis()
    if panel.counted:
        axes.legend(frameon=False, loc="upper right", handletextpad=0.2, borderaxespad=0)


def _label(scheme: str) -> str:
    if scheme == "tree":
        return "this tree"
    return scheme + ("  (does not reach)" if scheme in UNREACHED else "")

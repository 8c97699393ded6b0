"""Curves in panels, one below the other, as one SVG that needs nothing else: the style of all our pictures.

`penstock bench --plot` carries this file inside and runs it by itself: `--check` only looks whether matplotlib is
there; without it one picture is read from standard input and drawn to standard output. A picture, in JSON:

    {"title": "...", "groups": [{"title": "...", "x": {"label": "...", "log": false}, "panels": [panel...]}...]}

The panels of a group share its x axis, whose "ticks" may be given: [[x, "label"]...]. A panel is {"label": what y is,
"bottom": 0, "top": null, "curves": [curve...], "marks": [mark...]}; a curve {"label", "colour": number, "points":
false, "dash": "solid", "dashed" or "dotted", "x": [...], "y": [...]}; a mark, a thin line across, {"label", and "x" or
"y"}. Only "groups", "panels", "curves", their "x" and "y", and labels must be there.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

# Distinct on white, in grey print, and by most who see colours differently.
COLOURS = ["#1b6ca8", "#d1495b", "#2e933c", "#8a5cb8", "#b8860b", "#7a7a7a"]
STYLE: dict[Any, Any] = {
    "axes.edgecolor": "#999999",
    "axes.grid": True,
    "axes.labelcolor": "#333333",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "svg.fonttype": "none",  # texts stay texts
    "svg.hashsalt": "penstock",  # the same picture, the same bytes
    "text.color": "#333333",
    "text.parse_math": False,  # names of jobs may hold dollars
    "xtick.color": "#555555",
    "ytick.color": "#555555",
}
WIDTH_INCHES = 9.6
PANEL_INCHES = 1.9
TITLE_INCHES = 0.5
LABEL_LENGTH_MAX = 32
LEGEND_MAX = 12


def svg(picture: dict[str, Any]) -> str:
    """The picture; imports matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcdefaults()
    with matplotlib.rc_context(STYLE):
        groups = picture["groups"]
        heights = [TITLE_INCHES + PANEL_INCHES * max(1, len(group["panels"])) for group in groups]
        figure = Figure(figsize=(WIDTH_INCHES, sum(heights) + (TITLE_INCHES if picture.get("title") else 0)))
        if picture.get("title"):
            figure.suptitle(picture["title"], fontsize=11)
        parts = figure.subfigures(len(groups), 1, squeeze=False, height_ratios=heights)
        for part, group in zip(parts[:, 0], groups, strict=True):
            _draw_group(part, group)
        target = io.StringIO()
        nothing: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(target, format="svg", metadata=nothing)
    return target.getvalue()


def _draw_group(part: Any, group: dict[str, Any]) -> None:
    x = group.get("x", {})
    part.suptitle(_short(group.get("title", ""), 90), fontsize=10, x=0.01, ha="left")
    if not group["panels"]:
        return
    panels = part.subplots(len(group["panels"]), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(panels, group["panels"], strict=True):
        if x.get("log"):
            axes.set_xscale("log", base=2)
        _draw_panel(axes, panel)
    part.align_ylabels(panels)
    panels[-1].set_xlabel(x.get("label", ""))
    if x.get("ticks"):
        panels[-1].set_xticks([at for at, _ in x["ticks"]], labels=[name for _, name in x["ticks"]])
        panels[-1].minorticks_off()


def _draw_panel(axes: Any, panel: dict[str, Any]) -> None:
    drawn = []
    for curve in panel["curves"]:
        style = {"linestyle": curve.get("dash", "solid"), "color": COLOURS[curve.get("colour", 0) % len(COLOURS)]}
        style["marker"] = "o" if curve.get("points") else ""
        style["markersize"] = "3.5"
        drawn += axes.plot(curve["x"], curve["y"], **style)
    for mark in panel.get("marks", []):
        _draw_mark(axes, mark)
    axes.set_ylabel(panel["label"])
    axes.set_ylim(bottom=panel.get("bottom", 0), top=panel.get("top"))
    # A blank in front: matplotlib leaves out what begins with an underscore.
    labels = [" " + _short(curve["label"], LABEL_LENGTH_MAX) for curve in panel["curves"]]
    if len(labels) > LEGEND_MAX:
        labels[LEGEND_MAX - 1] = f" … and {len(labels) - LEGEND_MAX + 1} more"
    axes.legend(drawn[:LEGEND_MAX], labels[:LEGEND_MAX], loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_mark(axes: Any, mark: dict[str, Any]) -> None:
    style = {"color": "#555555", "linewidth": 0.8, "linestyle": (0, (5, 3))}
    if "x" in mark:
        axes.axvline(mark["x"], **style)
        axes.annotate(
            mark["label"], (mark["x"], 0.04), xycoords=("data", "axes fraction"), xytext=(-4, 0),
            textcoords="offset points", ha="right", fontsize=8,
        )  # fmt: skip
    else:
        axes.axhline(mark["y"], **style)
        axes.annotate(
            mark["label"], (0.0, mark["y"]), xycoords=("axes fraction", "data"), xytext=(4, 3),
            textcoords="offset points", fontsize=8,
        )  # fmt: skip


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def main() -> int:
    try:
        import matplotlib
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    if "--check" in sys.argv:
        print(matplotlib.__version__)
        return 0
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(svg(json.load(sys.stdin)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The report's charts as Vega-Lite specifications, made with Altair.

Data fields have fixed names, and rows are identified by position. Vega parses field names as expressions and uses
categories as object keys, so a feature called "constructor" would break it; here feature names are only ever text.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from truewood._formatting import CI, Unit, find_unit, shorten
from truewood._plotting.style import BIASED, FAINT, MUTED, SMALL, UNBIASED
from truewood._results.comparison_text import name_differences
from truewood._results.summary import (
    NOT_SIGNIFICANT,
    SIGNIFICANT,
    SIGNIFICANT_SMALL,
    Percent,
    get_factor,
    name_axis,
    name_measure,
    name_percent_column,
)

if TYPE_CHECKING:
    import altair as alt

    Chart = alt.Chart | alt.LayerChart | alt.FacetChart
    from truewood._results.comparison import Comparison
    from truewood._results.importance_result import ImportanceResult
    from truewood._results.scores_with_errors import ClassScores

# Height of a row and of another line of its name in pixels; on a phone, names are above the points.
_ROW = 22
_PHONE_ROW = 40
_LINE = 14
# Lines of a name, and characters of a line.
_MAX_LINES = 3
_LINE_WIDTH = 44
# The same for names beside a chart on a phone.
_MAX_NARROW_LINES = 5
_NARROW_LINE_WIDTH = 20
# Fields with the lines of a name.
_NAME_FIELDS = ("above", "beside", "after")
# Characters of all class names that fit side by side.
_MAX_CHARACTERS = 60
# Cells show numbers for up to this many classes, if they are this many pixels wide.
_MAX_NUMBERED = 10
_NUMBER_WIDTH = 56
# Characters of an axis title that fit on the screen of a phone.
_AXIS_TITLE_WIDTH = 44
_FONT = "system-ui, sans-serif"
_IS_PHONE = "windowSize()[0] < 600"
# Names above the points start right of the zero line if it is near the left edge.
_NAME_START = "max(12, scale('x', 0) < 48 ? scale('x', 0) + 5 : 0)"
_SHORTEN = "length({0}) > {1} ? slice({0}, 0, {1} - floor({1} / 3) - 1) + '…' + slice({0}, -floor({1} / 3)) : {0}"


def make_charts(result: ImportanceResult, percent: Percent | None, *, has_directions: bool) -> dict[str, Any]:
    """Make the charts of a result: Vega-Lite specifications by name, without data."""
    tooltips = _list_tooltips(result, percent, has_directions=has_directions)
    charts = {"dots": make_importance_chart(result, percent, tooltips), "slopes": _finish(_make_slopes(tooltips))}
    if result.classes is not None:
        charts["classes"] = _finish(_make_classes(result.classes, percent))
    return charts


def make_importance_chart(
    result: ImportanceResult, percent: Percent | None, tooltips: list[alt.Tooltip] | None = None
) -> dict[str, Any]:
    """Make the dot plot of a result, with tooltips without directions unless others are given."""
    has_inference = result.inference_unavailable is None
    small = {SIGNIFICANT_SMALL: SMALL} if percent is not None else {}
    unit = find_unit(result.values.tolist())
    dots = _make_dots(
        title=[name_axis(result, percent) if percent is not None else unit.name(name_axis(result, percent))],
        fills={SIGNIFICANT: UNBIASED, **small, NOT_SIGNIFICANT: "white"} if has_inference else {},
        tooltips=tooltips or _list_tooltips(result, percent, has_directions=False),
        description=f"Dot plot of {name_measure(result)} by feature; the table has the numbers.",
    )
    return _finish(dots)


def make_effects_chart(prediction: str, titles: dict[str, str]) -> dict[str, Any]:
    """Make the chart of an explanation: a dot plot of mean absolute effects, with tooltips by `titles`."""
    dots = _make_dots(
        title=[f"mean absolute effect on the {prediction}"],
        fills={},
        tooltips=_make_tooltips(titles),
        description="Dot plot of mean absolute effects by feature; the table has the numbers.",
    )
    return _finish(dots)


def make_difference_chart(comparison: Comparison, unit: Unit) -> dict[str, Any]:
    """Make the chart of a comparison: a dot plot of the differences."""
    a, b = (shorten(name, 24) for name in comparison.names)
    higher, lower = name_differences(comparison)
    titles = {
        "difference": "difference",
        "high": CI,
        "p_value": "p-value",
        "adjusted_p_value": "adjusted p-value",
        "importance_a": f"importance in {a}",
        "importance_b": f"importance in {b}" if a != b else "importance in the other",
    }
    dots = _make_dots(
        title=[unit.name(f"importance, {a} minus {b}"), name_measure(comparison)],
        fills={higher: UNBIASED, lower: BIASED, NOT_SIGNIFICANT: "white"},
        tooltips=_make_tooltips(titles),
        description="Dot plot of the differences by feature; the table has the numbers.",
    )
    return _finish(dots)


def _finish(chart: Chart) -> dict[str, Any]:
    config = {
        "font": _FONT,
        "background": None,
        "view": {"stroke": None},
        "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "gridOpacity": 0.5},
        "legend": {
            "labelFontSize": 12,
            "orient": "top",
            "title": None,
            "symbolStrokeWidth": 1.5,
        },
    }
    finished: dict[str, Any] = chart.properties(width="container").to_dict()
    return finished | {"config": config}


def name_class_column(number: int) -> str:
    """Name the field of the page's data that has the scores of a class."""
    return f"class_{number}"


def _list_tooltips(result: ImportanceResult, percent: Percent | None, *, has_directions: bool) -> list[alt.Tooltip]:
    has_inference = result.inference_unavailable is None
    titles = {} if percent is None else {"shown": name_percent_column(percent).removesuffix(" %")}
    if has_inference:
        titles["high"] = CI
    if has_directions:
        titles["direction"] = "direction"
    if has_inference:
        titles |= {"p_value": "p-value", "adjusted_p_value": "adjusted p-value"}
    return _make_tooltips(titles | {"importance": "importance", "rank": "rank", "mdi_rank": "biased rank"})


def _make_tooltips(titles: dict[str, str]) -> list[alt.Tooltip]:
    """Make tooltips that show the texts of the table, and the rank."""
    import altair as alt

    fields = {name: "rank:Q" if name == "rank" else f"text_{name}:N" for name in titles}
    names = [alt.Tooltip("label:N", title="feature")]
    return names + [alt.Tooltip(fields[name], title=title) for name, title in titles.items()]


def _label_rows(label: str) -> alt.Y:
    """Rows by position, labeled by an expression."""
    import altair as alt

    axis = alt.Axis(
        title=None,
        labelExpr=label,
        labelLimit=400,
        labelOverlap=False,
        labelPadding=6,
        ticks=False,
        domain=False,
        labelLineHeight=_LINE,
        labelBaseline="middle",
    )
    return alt.Y("position:O", axis=axis)


def _make_dots(*, title: list[str], fills: dict[str, str], tooltips: list[alt.Tooltip], description: str) -> Chart:
    """Make a dot plot on pale bars, with intervals if there are colors of verdicts, `fills`."""
    import altair as alt

    label = "data('features')[datum.value].lines"
    y = _label_rows(f"{_IS_PHONE} ? '' : {label}")
    lines = [line for text in title for line in textwrap.wrap(text, _AXIS_TITLE_WIDTH)]
    axis = alt.Axis(title=lines, tickCount=5, labelFlush=False)
    x = alt.X("shown:Q", axis=axis, scale=alt.Scale(nice=False, padding=8))
    bars = alt.Chart().mark_bar(color=FAINT, height=8).encode(x=x, y=y)
    points = alt.Chart().mark_point(size=60, opacity=1, stroke=UNBIASED, strokeWidth=1.5, fill=UNBIASED)
    layers = [bars, points.encode(x=x, y=y)]
    if fills:
        scale = alt.Scale(domain=list(fills), range=list(fills.values()))
        edges = alt.Scale(domain=list(fills), range=[_find_edge(fill) for fill in fills.values()])
        legend = alt.Legend(symbolType="circle", columns={"expr": f"{_IS_PHONE} ? 2 : {len(fills)}"})
        stroke = alt.Stroke("verdict:N", scale=edges, legend=legend)
        whiskers = alt.Chart().mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=y, stroke=stroke)
        filled = points.encode(x=x, y=y, stroke=stroke, fill=alt.Fill("verdict:N", scale=scale, legend=legend))
        layers = [bars, whiskers, filled]
    zero = alt.Chart().mark_rule(strokeWidth=1, color="black").encode(x=alt.datum(0))
    names = (
        alt.Chart()
        .mark_text(align="left", baseline="bottom", dy=-7, fontSize=12, lineHeight=_LINE, limit={"expr": "width - 12"})
        .encode(x=alt.value({"expr": _NAME_START}), y=y, text="above:N")
        .transform_calculate(above=f"{_IS_PHONE} ? datum.lines : ''")
    )
    hover = alt.selection_point(name="hover", on="pointerover", clear="pointerout", fields=["position"], empty=False)
    # The whole row has a tooltip, because points near zero are hard to hit.
    rows = (
        alt.Chart()
        .mark_bar(color=MUTED, cursor="default")
        .encode(
            x=alt.value(0),
            x2=alt.value("width"),
            y=y,
            fillOpacity=alt.condition(hover, alt.value(0.15), alt.value(0)),
            tooltip=tooltips,
        )
        .add_params(hover)
    )
    return alt.layer(*layers, zero, names, rows, data=alt.NamedData("features")).properties(
        height=alt.Step(_ROW), description=description
    )


def _find_edge(fill: str) -> str:
    """Color of a point's edge and whisker, darker for pale and empty points."""
    return {"white": MUTED, SMALL: UNBIASED}.get(fill, fill)


def adapt_rows(chart: str, spec: dict[str, Any], n_lines: int, n_narrow_lines: int = 1) -> None:
    """Adapt a compiled chart to names of up to `n_lines` lines: increase row heights, and center names in their rows.

    Vega lets the lines of a text run down from its position. On phones the names of the dot plot are above the points.
    """
    on_screen = _ROW + _LINE * (n_lines - 1)
    on_phone = _ROW + _LINE * (n_narrow_lines - 1)
    if chart == "dots":
        on_phone = _PHONE_ROW + _LINE * (n_lines - 1)
    for signal in spec["signals"]:
        if signal["name"] == "y_step":
            del signal["value"]
            signal["update"] = f"{_IS_PHONE} ? {on_phone} : {on_screen}"
    for axis in spec.get("axes", []):
        if axis["scale"] == "y" and axis.get("labels", True):
            feature = "data('features')[datum.value]"
            lines = f"{feature}.lines" if chart == "dots" else f"({_IS_PHONE} ? {feature}.narrow : {feature}.lines)"
            axis["encode"]["labels"]["update"]["dy"] = {"signal": f"-{_LINE / 2} * (length({lines}) - 1)"}
    for mark in spec["marks"]:
        update = mark.get("encode", {}).get("update", {})
        if mark["type"] == "text" and any(f'"{name}"' in str(update["text"]) for name in _NAME_FIELDS):
            step = _LINE if chart == "dots" else _LINE / 2
            start = update.get("dy", {}).get("value", 0)
            lines = "datum.after" if '"after"' in str(update["text"]) else "datum.lines"
            update["dy"] = {"signal": f"{start} - {step} * (length({lines}) - 1)"}


def wrap_name(name: str, *, is_narrow: bool = False) -> list[str]:
    """Break a name into the lines of a label; only what exceeds them is cut, in the middle."""
    n_lines, width = (_MAX_NARROW_LINES, _NARROW_LINE_WIDTH) if is_narrow else (_MAX_LINES, _LINE_WIDTH)
    return textwrap.wrap(shorten(name, n_lines * (width - 4)), width) or [""]


def _make_slopes(tooltips: list[alt.Tooltip]) -> Chart:
    """Make a slope chart from the biased ranks of the shown features to their ranks by this measure."""
    import altair as alt

    # Lines go from 0 to 1; the rest is space for names, only on the right of a narrow screen.
    left_space, right_space = f"({_IS_PHONE} ? 0.4 : 1)", f"({_IS_PHONE} ? 2.6 : 1)"
    first, last = {"expr": f"-{left_space}"}, {"expr": f"1 + {right_space}"}
    positions = alt.Scale(domainMin=first, domainMax=last, nice=False, zero=False)
    headings = alt.Axis(
        title=None,
        orient="top",
        values=[0, 1],
        labelExpr=f"datum.value == 0 ? ({_IS_PHONE} ? 'biased' : 'biased rank') : 'rank in this report'",
        labelAlign=alt.condition("datum.value == 0", alt.value("right"), alt.value("left")),
        grid=False,
        ticks=False,
        domain=False,
    )
    left, right = alt.Y("left:O", axis=None), alt.Y("right:O", axis=None)
    at_left = alt.X(datum=0, type="quantitative", scale=positions, axis=headings)
    at_right = alt.X(datum=1, type="quantitative", scale=positions, axis=headings)
    change = alt.Color(
        "change:N",
        scale=alt.Scale(domain=["rises", "drops", "about the same"], range=[UNBIASED, BIASED, MUTED]),
        legend=alt.Legend(symbolType="stroke"),
    )
    hover = alt.selection_point(name="hover", on="pointerover", clear="pointerout", fields=["position"], empty=False)
    base = alt.Chart()
    line = {"x": at_left, "x2": alt.datum(1), "y": left, "y2": "right:O"}
    lines = base.mark_rule().encode(
        **line, color=change, strokeWidth=alt.condition(hover, alt.value(5), alt.value(1.8))
    )
    targets = base.mark_rule(strokeWidth=14, strokeOpacity=0).encode(**line, tooltip=tooltips)
    limit = f"width * {right_space} / (1 + {left_space} + {right_space}) - 40"
    text: dict[str, Any] = {"fontSize": 12, "limit": {"expr": limit}, "lineHeight": _LINE, "baseline": "middle"}
    names = [
        base.mark_text(align="right", dx=-8, fontSize=12).encode(x=at_left, y=left, text="mdi_rank:Q"),
        base.mark_text(align="right", dx=-36, **text).encode(x=at_left, y=left, text="beside:N"),
        base.mark_text(align="left", dx=8, fontSize=12).encode(x=at_right, y=right, text="rank:Q"),
        base.mark_text(align="left", dx=36, **text).encode(x=at_right, y=right, text="after:N"),
    ]
    ends = [
        base.mark_circle(size=36, opacity=1).encode(x=at_left, y=left, color=change),
        base.mark_circle(size=36, opacity=1).encode(x=at_right, y=right, color=change),
    ]
    rises = "(datum.mdi_rank - datum.rank)"
    return (
        alt.layer(lines, *ends, *names, targets.add_params(hover), data=alt.NamedData("features"))
        .transform_window(right="row_number()", sort=[alt.SortField("rank")])
        .transform_window(left="row_number()", sort=[alt.SortField("mdi_rank"), alt.SortField("rank")])
        .transform_calculate(
            change=f"abs({rises}) <= 1 ? 'about the same' : {rises} > 0 ? 'rises' : 'drops'",
            beside=f"{_IS_PHONE} ? '' : datum.lines",
            after=f"{_IS_PHONE} ? datum.narrow : datum.lines",
        )
        .properties(
            height=alt.Step(_ROW), description="Slope chart from the biased rank of each feature to its unbiased rank."
        )
    )


def _make_classes(classes: ClassScores, percent: Percent | None) -> Chart:
    """Make a heat map of the scores by class, in percent if possible."""
    import altair as alt

    factor = get_factor(percent)
    columns: list[Any] = [name_class_column(k) for k in range(len(classes.names))]
    names = alt.param(name="class_names", value=dict(zip(columns, classes.names.tolist(), strict=True)))
    largest = factor * float(np.abs(classes.values).max()) or 1.0
    number = ".2~g" if percent is None else ".1f"
    is_crowded = str(sum(len(name) for name in classes.names) > _MAX_CHARACTERS).lower()
    angle = f"{_IS_PHONE} || {is_crowded} ? 45 : 0"
    axis = alt.Axis(
        title="class",
        orient="top",
        labelExpr=_SHORTEN.format("class_names[datum.value]", "24"),
        labelAngle={"expr": angle},
        labelAlign={"expr": f"({angle}) ? 'right' : 'center'"},
        ticks=False,
        domain=False,
    )
    color = alt.Color(
        "score:Q",
        scale=alt.Scale(domain=[-largest, 0, largest], range=[BIASED, "white", UNBIASED], interpolate="rgb"),
        legend=alt.Legend(format=".2~g", title=None if percent is None else name_percent_column(percent)),
    )
    feature = "data('features')[datum.value]"
    y = _label_rows(f"{_IS_PHONE} ? {feature}.narrow : {feature}.lines")
    base = (
        alt.Chart().transform_fold(columns, as_=["class", "raw"]).transform_calculate(score=f"datum.raw * {factor!r}")
    )
    cells = (
        base.transform_calculate(class_name="class_names[datum.class]")
        .mark_rect()
        .encode(
            x=alt.X("class:O", sort=columns, axis=axis),
            y=y,
            color=color,
            tooltip=[
                alt.Tooltip("label:N", title="feature"),
                alt.Tooltip("class_name:N", title="class"),
                alt.Tooltip("score:Q", title="importance" if percent is None else "%", format=number),
            ],
        )
        .add_params(names)
    )
    layers: list[Any] = [cells]
    if len(columns) <= _MAX_NUMBERED:
        is_dark = f"abs(datum.score) > {0.6 * largest}"
        ink = alt.condition(is_dark, alt.value("white"), alt.value("#1a1d21"))
        x = alt.X("class:O", sort=columns, axis=axis)
        has_space = f"width >= {_NUMBER_WIDTH * len(columns)} ? 1 : 0"
        numbers = base.mark_text(fontSize=11, opacity={"expr": has_space}).encode(
            x=x, y=y, text=alt.Text("score:Q", format=number), color=ink
        )
        layers.append(numbers)
    return alt.layer(*layers, data=alt.NamedData("features")).properties(
        height=alt.Step(_ROW),
        description="Heat map of scores by feature and class; the downloaded table has the numbers.",
    )

"""The interactive chart that notebooks show above the view of a result.

A chart is an output of its own, a Vega specification of a few kilobytes: JupyterLab and VS Code draw it with the Vega
they contain, and other programs and exported pages show its PNG image. Nothing is loaded from another host.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from truewood._report.charts import adapt_rows, make_effects_chart, make_importance_chart, wrap_name
from truewood._report.importance_page import make_columns
from truewood._report.vega import compile_chart, import_libraries
from truewood._results.explanation import Explanation, summarize_effects
from truewood._results.summary import classify_features, find_percent, find_shown

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

_ALPHA = 0.05
_MAX_SHOWN = 20
# JupyterLab 4 and VS Code draw Vega 5, and charts use nothing newer.
_MIME_TYPE = "application/vnd.vega.v5+json"
_SCHEMA = "https://vega.github.io/schema/vega/v5.json"
# In notebooks the container of a chart has no width of its own. Images, drawn without a window, have the larger width.
_WIDTH = "windowSize()[0] < 900 ? max(200, windowSize()[0] - 150) : 700"

# Dark themes would draw white text, but the colors of points and bars need a white background.
_STYLE = {"guide-label": {"fill": "black"}, "guide-title": {"fill": "black"}}
_AXIS = {"domainColor": "#888", "gridColor": "#ddd", "tickColor": "#888"}
# As in the report, without a link to the Vega editor, which is on another host.
_EMBED_OPTIONS = {
    "renderer": "svg",
    "actions": {"export": True, "source": False, "compiled": False, "editor": False},
}


def display_importance(result: ImportanceResult) -> None:
    """Display the chart and the view of a result in a notebook."""
    _display(result, lambda: _draw_importance(result))


def display_explanation(explanation: Explanation) -> None:
    """Display the chart and the view of an explanation in a notebook."""
    _display(explanation, lambda: _draw_effects(explanation))


def _display(shown: Any, draw: Callable[[], dict[str, Any] | None]) -> None:
    """Display a chart, then the HTML view; IPython shows only the view if this raises NotImplementedError."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is None or "text/html" not in shell.display_formatter.active_types:
        raise NotImplementedError("a terminal shows text")
    try:
        vl_convert, _ = import_libraries()
    except ImportError as error:
        raise NotImplementedError("charts need the report extra") from error
    chart = draw()
    if chart is None:
        raise NotImplementedError("there is nothing to draw")
    image = base64.b64encode(vl_convert.vega_to_png(chart)).decode()
    options = {_MIME_TYPE: {"embed_options": _EMBED_OPTIONS}}
    shell.display_pub.publish({_MIME_TYPE: chart, "image/png": image}, options)
    shell.display_pub.publish({"text/html": shown._repr_html_(), "text/plain": repr(shown)})


def _draw_importance(result: ImportanceResult) -> dict[str, Any]:
    percent, table = find_percent(result), result.frame()
    shown, order = find_shown(result, percent), result.order[:_MAX_SHOWN]
    texts = {column.name: column.texts for column in make_columns(result, table, percent, None, None, _ALPHA)}
    fields: dict[str, list[Any]] = {
        "shown": shown.values[order].tolist(),
        "rank": table["rank"].tolist(),
        **{f"text_{name}": column for name, column in texts.items()},
    }
    if result.inference_unavailable is None:
        fields |= {"low": shown.low[order].tolist(), "high": shown.high[order].tolist()}
        fields["verdict"] = classify_features(result, _ALPHA)[order].tolist()
    return _fill(make_importance_chart(result, percent), result.feature_names[order].tolist(), fields)


def _draw_effects(explanation: Explanation) -> dict[str, Any] | None:
    effects = summarize_effects(explanation)
    if effects is None:
        return None
    names, *titles = effects.columns
    fields: dict[str, list[Any]] = {f"text_{k}": effects.columns[title] for k, title in enumerate(titles)}
    chart = make_effects_chart(effects.prediction, {str(k): title for k, title in enumerate(titles)})
    return _fill(chart, effects.columns[names], fields | {"shown": effects.means})


def _fill(chart: dict[str, Any], names: list[str], fields: dict[str, list[Any]]) -> dict[str, Any]:
    """Compile a chart and add its data, one row per name."""
    lines = [wrap_name(name) for name in names]
    rows = [
        {"position": k, "label": name, "lines": lines[k]}
        | {field: _to_json(values[k]) for field, values in fields.items()}
        for k, name in enumerate(names)
    ]
    spec = compile_chart(chart) | {"$schema": _SCHEMA, "background": "white", "padding": 8}
    spec["config"]["style"] |= _STYLE
    spec["config"]["axis"] |= _AXIS
    adapt_rows("dots", spec, max(map(len, lines)))
    next(source for source in spec["data"] if source["name"] == "features")["values"] = rows
    signals = [signal for signal in spec["signals"] if signal["name"] != "width"]
    return spec | {"signals": [{"name": "width", "update": _WIDTH}, *signals]}


def _to_json(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value

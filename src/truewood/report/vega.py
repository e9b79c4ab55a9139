"""Vega, the library that draws the charts in the browser: its JavaScript, and charts in the form it reads."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def bundle_scripts() -> str:
    """Return the JavaScript of Vega and Vega-Embed, as a module that can stand in a page."""
    vl_convert, vega_lite = import_libraries()
    bundle: str = vl_convert.javascript_bundle(vl_version=vega_lite)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def compile_chart(chart: dict[str, Any]) -> dict[str, Any]:
    """Turn a Vega-Lite specification into one of Vega: less for the browser to do."""
    vl_convert, vega_lite = import_libraries()
    compiled: dict[str, Any] = vl_convert.vegalite_to_vega(chart, vl_version=vega_lite)
    return compiled


def import_libraries() -> tuple[Any, str]:
    """The converter, and the version of Vega-Lite that Altair writes."""
    try:
        import altair
        import vl_convert
    except ImportError as error:
        raise ImportError(
            f"a report needs altair and vl-convert-python, but {error.name} is not installed; "
            "pip install 'truewood[report]' brings both."
        ) from error
    return vl_convert, ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])

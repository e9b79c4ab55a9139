"""What draws charts in a page: the JavaScript of Vega, and charts compiled from Vega-Lite to Vega."""

from __future__ import annotations

from functools import cache
from typing import Any

from truewood._extras import describe_missing


@cache
def bundle_scripts() -> str:
    """Return the JavaScript of Vega and Vega-Embed as a module to embed in a page."""
    vl_convert, vega_lite = import_libraries()
    bundle: str = vl_convert.javascript_bundle(vl_version=vega_lite)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def compile_chart(chart: dict[str, Any]) -> dict[str, Any]:
    """Compile a Vega-Lite specification to Vega, which saves the browser that work."""
    vl_convert, vega_lite = import_libraries()
    compiled: dict[str, Any] = vl_convert.vegalite_to_vega(chart, vl_version=vega_lite)
    return compiled


def import_libraries() -> tuple[Any, str]:
    """Return the converter, and the version of Vega-Lite that Altair writes."""
    try:
        import altair
        import vl_convert
    except ImportError as error:
        raise ImportError(describe_missing("a report needs", [str(error.name)], "report")) from error
    return vl_convert, ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])

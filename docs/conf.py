"""The site: `python -m sphinx -W --keep-going docs build/site`."""

from __future__ import annotations

import argparse
import os
import tomllib
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx_gallery.scrapers import matplotlib_scraper
from sphinx_gallery.sorting import ExplicitOrder

import truewood
from truewood._cli import make_parser

matplotlib.use("agg")

project = "truewood"
author = "The truewood developers"
project_copyright = "The truewood developers, BSD 3-Clause license"
version = release = truewood.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_templates"]
default_role = "py:obj"
# Only the gallery's settings, which hold functions, cannot be pickled.
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections have the types
numpydoc_show_class_members = False  # the templates list them

THUMBNAIL = (4.0, 2.8)  # inches, at 100 dots per inch
MAX_LABELS = 12  # more labels than this are unreadable in a thumbnail


def scrape_figure(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the example's figure for its page, then a simplified redraw of it as the thumbnail."""
    figures = [plt.figure(number) for number in plt.get_fignums()]
    text: str = matplotlib_scraper(block, block_vars, gallery_conf)  # closes them
    for figure in figures:
        simplify(figure)
        figure.savefig(next(block_vars["image_path_iterator"]), dpi=100)
        block_vars["file_conf"]["thumbnail_number"] = len(block_vars["image_path_iterator"])
    return text


def simplify(figure: Any) -> None:
    """Drop everything that is unreadable at the size of a thumbnail."""
    figure.set_size_inches(THUMBNAIL)
    for artist in (*figure.texts, *figure.legends, *(text for ax in figure.axes for text in ax.texts)):
        artist.set_visible(False)
    for ax in figure.axes:
        if ax.get_legend():
            ax.get_legend().remove()
        for place in ("left", "center", "right"):
            ax.set_title("", loc=place)
        ax.set(xlabel="", ylabel="")
        ax.tick_params(labelsize=11)
        for axis in (ax.xaxis, ax.yaxis):
            if len(axis.get_ticklabels()) > MAX_LABELS:
                axis.set_tick_params(which="both", labelleft=False, labelright=False, labelbottom=False)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": ExplicitOrder(
        [
            "first_result.py",
            "bias.py",
            "from_csv.py",
            "boosting_heldout.py",
            "boosting_folds.py",
            "pipeline.py",
            "correlated.py",
            "needed.py",
            "directions.py",
            "interactions.py",
            "classes.py",
            "selection.py",
            "clustered_rows.py",
            "comparing.py",
        ]
    ),
    "image_scrapers": (scrape_figure,),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10_000,
    "write_computation_times": False,
}

toc_object_entries_show_parents = "hide"
html_math_renderer = "mathml"  # rendered by the browser, without external scripts
html_theme = "pydata_sphinx_theme"
html_title = "truewood"
html_favicon = html_logo = "../src/truewood/_app/icon.svg"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["truewood.css"]
# Pages that head no section have no section navigation.
html_sidebars = {page: [] for page in ("index", "start", "why", "choose", "compare", "faq", "glossary", "develop")}
pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
urls = pyproject["project"]["urls"]
html_theme_options = {
    "logo": {"text": "truewood", "alt_text": "truewood: home page"},
    "icon_links": [{"name": "Repository", "url": urls["Repository"], "icon": "fa-brands fa-github"}],
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],  # an icon: a field would leave too little space for the links
    "header_links_before_dropdown": 12,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["help-links"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
if "TRUEWOOD_DOCS_VERSION" in os.environ:  # set by .ci/site, which puts all versions on one site
    html_theme_options |= {
        "switcher": {
            "json_url": f"{urls['Documentation']}switcher.json",
            "version_match": os.environ["TRUEWOOD_DOCS_VERSION"],
        },
        "check_switcher": False,  # the file is written after all versions are built
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    }


class CommandHelp(Directive):
    """The output of `truewood COMMAND --help`, as in `.. command-help:: importance`, or of `truewood --help`."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Insert the text verbatim."""
        parser: argparse.ArgumentParser = make_parser()
        if self.arguments:
            action = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
            parser = action.choices[self.arguments[0]]
        parser.formatter_class = _wide(parser.formatter_class)
        text = parser.format_help()
        return [nodes.literal_block(text, text, language="text")]


def _wide(formatter: Any) -> Any:
    """Fix the width, so that the page does not depend on the terminal of the build."""
    return lambda prog: formatter(prog, width=90)


def write_math(translator: Any, node: nodes.Element) -> None:
    """Write a formula as MathML."""
    formula = tex2mathml(node.astext().replace("'", r"^{\prime}"), as_block=isinstance(node, nodes.math_block))
    translator.body.append(f"<p>{formula}</p>" if isinstance(node, nodes.math_block) else formula)
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Register this site's directive and math renderer."""
    app.add_directive("command-help", CommandHelp)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))

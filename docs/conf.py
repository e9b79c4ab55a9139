"""The site: `python -m sphinx -W --keep-going docs build/site`."""

from __future__ import annotations

import argparse
from typing import Any

import matplotlib
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx_gallery.sorting import ExplicitOrder

import truewood
from truewood._cli import make_parser

matplotlib.use("agg")

project = "truewood"
author = "The truewood developers"
project_copyright = "The truewood developers, BSD 3-Clause licence"
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
# What the gallery holds changes while it is written, and the configuration has nothing else that could not be pickled.
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections have the types
numpydoc_show_class_members = False  # the templates list them

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
            "classes.py",
            "selection.py",
            "clustered_rows.py",
            "comparing.py",
        ]
    ),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10_000,
    "write_computation_times": False,
}

toc_object_entries_show_parents = "hide"
html_math_renderer = "mathml"  # of the browser: nothing is loaded from elsewhere
html_theme = "pydata_sphinx_theme"
html_title = "truewood"
html_favicon = html_logo = "../src/truewood/_app/icon.svg"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["truewood.css"]
# Pages without others below them.
html_sidebars = {page: [] for page in ("index", "start", "why", "choose", "compare", "develop")}
html_theme_options = {
    "logo": {"text": "truewood", "alt_text": "truewood: the site's first page"},
    "navbar_align": "left",
    "header_links_before_dropdown": 10,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}


class CommandHelp(Directive):
    """What a command prints with --help: `.. command-help:: importance`, or without a name for all commands."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Put the text into the page as it is."""
        parser: argparse.ArgumentParser = make_parser()
        if self.arguments:
            action = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
            parser = action.choices[self.arguments[0]]
        parser.formatter_class = _wide(parser.formatter_class)
        text = parser.format_help()
        return [nodes.literal_block(text, text, language="text")]


def _wide(formatter: Any) -> Any:
    """The same layout at a width of its own, so that the page does not depend on the terminal of the build."""
    return lambda prog: formatter(prog, width=90)


def write_math(translator: Any, node: nodes.Element) -> None:
    """Write a formula as MathML."""
    formula = tex2mathml(node.astext().replace("'", r"^{\prime}"), as_block=isinstance(node, nodes.math_block))
    translator.body.append(f"<p>{formula}</p>" if isinstance(node, nodes.math_block) else formula)
    raise nodes.SkipNode


def keep_percent(_app: Any, doctree: nodes.document) -> None:
    """Keep percent signs on the line of their numbers."""
    for text in list(doctree.findall(nodes.Text)):
        is_code = isinstance(text.parent, nodes.literal | nodes.FixedTextElement)
        if " %" in text and not is_code:
            text.parent.replace(text, nodes.Text(text.replace(" %", "\N{NO-BREAK SPACE}%")))


def setup(app: Any) -> None:
    """Add what this site has of its own."""
    app.add_directive("command-help", CommandHelp)
    app.connect("doctree-read", keep_percent)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))

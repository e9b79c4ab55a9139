"""`ImportanceResult`: the scores with all raw arrays, as a table, a picture, a file."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, fields
from operator import index
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = "truewood.ImportanceResult"
FORMAT_VERSION = 1

_ROWS_IN_WORDS = {
    "oob": "out-of-bag rows",
    "heldout": "held-out rows",
    "lists": "rows from lists",
    "training": "training rows",
}
_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class ImportanceResult:
    """How much each feature is worth to a model.

    Attributes
    ----------
    values : ndarray of shape (n_features,)
        Scores: mean over trees, and over outputs; for boosted trees the sum. Signed; a feature without predictive power
        is zero on average.
    share : ndarray of shape (n_features,)
        Scores as the part of the target's impurity that splits on the feature explain; NaN where raw scores are not in
        the units of the target, as for boosted classifiers.
    per_tree : ndarray of shape (n_trees, n_features)
        Scores by tree; NaN for trees that no unseen row scores.
    per_output : ndarray of shape (n_outputs, n_features)
        Scores by output.
    mdi : ndarray of shape (n_features,)
        The biased score of the same trees (mean decrease in impurity, not normalised), for comparison.
    impurity : float
        The target's impurity at the roots (Gini or variance; for boosted trees the variance of what they are scored
        by): what `share` is a share of.
    feature_names : ndarray of str, shape (n_features,)
        Names of the features, or of the groups.
    measure : str
        Name of the measure.
    task : {"classification", "regression"}
        What the model predicts.
    rows : {"oob", "heldout", "lists", "training"}
        Which rows scored the trees.
    n_rows : int
        Number of rows that were passed.
    skipped_weight : float
        Share of split weight that could not be scored, because no unseen row reached one of the children.
    """

    values: NDArray[np.float64]
    share: NDArray[np.float64]
    per_tree: NDArray[np.float64]
    per_output: NDArray[np.float64]
    mdi: NDArray[np.float64]
    impurity: float
    feature_names: NDArray[np.str_]
    measure: str
    task: str
    rows: str
    n_rows: int
    skipped_weight: float

    def __post_init__(self) -> None:
        for field in fields(self):
            if isinstance(getattr(self, field.name), np.ndarray):
                frozen = getattr(self, field.name).view()
                frozen.flags.writeable = False
                object.__setattr__(self, field.name, frozen)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.per_tree)

    def frame(self) -> pd.DataFrame:
        """Return the scores as a table, the most important feature first.

        Returns
        -------
        pandas.DataFrame
            Columns feature, importance, share, rank, mdi, mdi_rank. Features of equal score share the better rank.
        """
        table = pd.DataFrame(
            {
                "feature": self.feature_names.tolist(),
                "importance": self.values,
                "share": self.share,
                "rank": rankdata(-self.values, method="min").astype(int),
                "mdi": self.mdi,
                "mdi_rank": rankdata(-self.mdi, method="min").astype(int),
            }
        )
        return table.sort_values("rank", kind="stable", ignore_index=True)

    def select(self, *, k: int) -> NDArray[np.bool_]:
        """Choose the k features of largest score.

        Parameters
        ----------
        k : int
            Number of features.

        Returns
        -------
        ndarray of bool, shape (n_features,)
            Mask of the chosen features; of equal scores the earlier feature is chosen.
        """
        if not 0 <= index(k) <= len(self.values):
            raise ValueError(f"k must lie between 0 and the number of features, {len(self.values)}, got {k}.")
        mask = np.zeros(len(self.values), dtype=np.bool_)
        mask[np.argsort(-self.values, kind="stable")[:k]] = True
        return mask

    def plot(self, kind: str = "bar", *, top: int | None = 20, ax: Axes | None = None) -> Axes:
        """Draw the scores.

        Parameters
        ----------
        kind : {"bar", "compare", "box", "rank"}, default="bar"
            Bars of the scores; biased rank beside unbiased rank, joined by lines; boxes of the scores by tree; or all
            scores in falling order.
        top : int or None, default=20
            Number of features to draw, the most important first; None draws all. "rank" always draws all.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.

        Returns
        -------
        matplotlib Axes
        """
        from truewood.plots import draw

        return draw(self, kind, top=top, ax=ax)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a JSON file that `truewood.load` reads back exactly.

        Parameters
        ----------
        path : str or path
            The file.
        """
        content = {"format": FORMAT, "version": FORMAT_VERSION}
        content |= {field.name: _to_json(getattr(self, field.name)) for field in fields(self)}
        Path(path).write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")

    def _summary(self) -> str:
        trees = f"{self.n_trees} tree{'s' * (self.n_trees != 1)}"
        return f"{self.measure}, {self.task}, {trees}, {self.n_rows} {_ROWS_IN_WORDS[self.rows]}"

    def _note(self) -> str:
        hidden = len(self.values) - _SHOWN
        more = f"{hidden} more features; all of them in .frame(). " if hidden > 0 else ""
        skipped = f"{self.skipped_weight:.1%} of split weight had no unseen rows." if self.skipped_weight > 0 else ""
        return (more + skipped).strip()

    def __repr__(self) -> str:
        table = self.frame().head(_SHOWN).to_string(index=False, float_format=lambda number: f"{number:.4g}")
        return "\n".join(filter(None, [f"ImportanceResult: {self._summary()}", table, self._note()]))

    def _repr_html_(self) -> str:
        table = self.frame().head(_SHOWN).to_html(index=False, float_format=lambda number: f"{number:.4g}", border=0)
        parts = [f"<p><b>ImportanceResult</b>: {html.escape(self._summary())}</p>", table]
        return "\n".join([*parts, f"<p>{html.escape(self._note())}</p>"] if self._note() else parts)


def _to_json(value: Any) -> Any:
    """Turn arrays into lists; JSON has no NaN, so that becomes null."""
    if not isinstance(value, np.ndarray):
        return value
    listed = value.astype(object)
    if value.dtype.kind == "f":
        listed[np.isnan(value)] = None
    return listed.tolist()


def load(path: str | PathLike[str]) -> ImportanceResult:
    """Read a result that `ImportanceResult.save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    ImportanceResult
        The same result, to the last bit.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise ValueError(f"{path} must be a file written by ImportanceResult.save.")
    version = content.pop("version", None)
    if version != FORMAT_VERSION:
        raise ValueError(f"{path} has format version {version}, this truewood reads {FORMAT_VERSION}.")
    if content.keys() != {field.name for field in fields(ImportanceResult)}:
        raise ValueError(f"{path} is not complete.")
    for name in ("values", "share", "per_tree", "per_output", "mdi"):
        content[name] = np.array(content[name], dtype=np.float64)
    content["feature_names"] = np.array(content["feature_names"], dtype=np.str_)
    return ImportanceResult(**content)

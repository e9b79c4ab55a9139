"""`permutation_test`: p-values from refitting the model on permuted targets."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.utils import shuffle
from sklearn.utils.parallel import Parallel, delayed

from truewood._arguments import check_estimator, check_n_jobs, check_path, check_seed, is_count
from truewood._checkpoint import append_to, read_entries, read_first_entry
from truewood._formatting import count, find_unit, format_p_value, in_one_line, quote
from truewood._importance import importance
from truewood._inference.p_values import find_p_value
from truewood._inputs.correlation import read_shape
from truewood._inputs.groups import read_feature_groups
from truewood._inputs.table_types import read_names
from truewood._inputs.tables import InputSpec, read_features
from truewood._inputs.text_columns import name_text_columns
from truewood._pipelines.final_estimator import check_bags
from truewood._progress import show_progress
from truewood._read_only import make_read_only, restore_read_only
from truewood._refitting import N_SEEDS, name_weight, set_seeds
from truewood._results.importance_result import ImportanceResult
from truewood._results.notebook_view import draw_bars, write_table, write_view
from truewood._sklearn_compat import keep_warning_filters
from truewood._streaming.open_source import check_in_memory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FORMAT = "truewood.permutation_test"
_N_SHOWN = 10
_ALPHA = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class PermutationTestResult:
    """Scores of an estimator, and its scores on permuted targets.

    Attributes
    ----------
    values : ndarray of shape (n_features,)
        Scores on the original target.
    null : ndarray of shape (n_permutations, n_features)
        Scores on permuted targets.
    feature_names : ndarray of str, shape (n_features,)
        Names of the features or feature groups.
    measure : str
        Name of the measure.
    """

    values: NDArray[np.float64]
    null: NDArray[np.float64]
    feature_names: NDArray[np.str_]
    measure: str

    def __post_init__(self) -> None:
        make_read_only(self)

    __setstate__ = restore_read_only

    @property
    def p_value(self) -> NDArray[np.float64]:
        """Exact one-sided p-values, shape (n_features,): (1 + count of null scores >= score) / (1 + n_permutations).

        They are valid for any distribution of the scores, and at least 1 / (1 + n_permutations).
        """
        p_value: NDArray[np.float64] = (1.0 + (self.null >= self.values).sum(axis=0)) / (1.0 + len(self.null))
        return p_value

    @property
    def normal_p_value(self) -> NDArray[np.float64]:
        """One-sided p-values, shape (n_features,), that assume normally distributed null scores.

        They use the mean and standard deviation of `null`, and can be much smaller than exact p-values from few
        permutations.
        """
        excess, spread = self.values - self.null.mean(axis=0), self.null.std(axis=0, ddof=1)
        return np.where(spread > 0, find_p_value(excess, spread), np.where(excess > 0, 0.0, 1.0))

    def frame(self) -> pd.DataFrame:
        """Return scores and p-values as a data frame, the most important feature first.

        Returns
        -------
        pandas.DataFrame
            Columns feature, importance, null_mean, null_std, p_value, normal_p_value and rank. Tied features share the
            better rank.
        """
        columns = {
            "feature": self.feature_names.tolist(),
            "importance": self.values,
            "null_mean": self.null.mean(axis=0),
            "null_std": self.null.std(axis=0, ddof=1),
            "p_value": self.p_value,
            "normal_p_value": self.normal_p_value,
            "rank": rankdata(-self.values, method="min").astype(int),
        }
        return pd.DataFrame(columns).sort_values("rank", kind="stable", ignore_index=True)

    def plot(self, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
        """Plot the scores and the scores on permuted targets.

        Parameters
        ----------
        top : int or None, default=20
            Number of features to show, the most important first; None shows all.
        ax : matplotlib Axes, default=None
            Axes to draw on; if None, a new figure is created.

        Returns
        -------
        matplotlib Axes
        """
        from truewood._plotting.permutation_test import draw_permutation_test

        return draw_permutation_test(self, top=top, ax=ax)

    def __repr__(self) -> str:
        table = pd.DataFrame(self._write_columns()).head(_N_SHOWN)
        table = table.assign(feature=table["feature"].map(in_one_line))
        lines = [f"PermutationTestResult: {self._write_header()}", table.to_string(index=False)]
        return "\n".join([*lines, *self._count_hidden()])

    def _repr_html_(self) -> str:
        table = self.frame().head(_N_SHOWN)
        columns = {title: texts[:_N_SHOWN] for title, texts in self._write_columns().items()}
        bars = draw_bars(table["importance"].tolist(), (table["p_value"] <= _ALPHA).tolist())
        notes = [f"Pale bars: p-value above {_ALPHA:g}, not adjusted for the number of features."]
        table_html = write_table(columns, bars)
        return write_view("PermutationTestResult", self._write_header(), table_html, [*notes, *self._count_hidden()])

    def _write_header(self) -> str:
        n_null = len(self.null)
        return f"{self.measure}, {count(n_null, 'permutation')}, smallest possible p-value {1 / (1 + n_null):.2g}"

    def _count_hidden(self) -> list[str]:
        n_hidden = len(self.values) - _N_SHOWN
        return [f"{count(n_hidden, 'more feature')}; see .frame()."] * (n_hidden > 0)

    def _write_columns(self) -> dict[str, list[str]]:
        """Write the columns of the table as text, all scores in one unit."""
        table = self.frame()
        unit = find_unit(table["importance"])
        return {
            "feature": table["feature"].tolist(),
            unit.name("importance"): table["importance"].map(unit.write).tolist(),
            unit.name("null mean"): table["null_mean"].map(unit.write).tolist(),
            unit.name("null std"): table["null_std"].map(unit.write).tolist(),
            "p-value": table["p_value"].map(format_p_value).tolist(),
            "p-value (normal)": table["normal_p_value"].map(format_p_value).tolist(),
        }


def permutation_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    n_permutations: int = 100,
    measure: str = "auto",
    sample_weight: Any = None,
    feature_groups: Any = None,
    resume: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool = True,
    engine: str = "auto",
) -> PermutationTestResult:
    """Test importances by refitting the model on permuted targets.

    This is the test of Altmann et al. (2010) for any measure. They used ``measure="mdi"``, whose bias also appears in
    the scores on permuted targets, so that p-values account for it. The test fits ``1 + n_permutations``
    models; the p-values of `importance` need no refits.

    Parameters
    ----------
    estimator : object
        The estimator to clone and fit: one that `importance` can score out of bag, such as a forest with bootstrap. If
        its `random_state` is None, each fit gets its own seed.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Training data.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Target; its rows are permuted.
    n_permutations : int, default=100
        Number of permutations, at least 2.
    measure : str, default="auto"
        Name of the measure, one of `measures()`.
    sample_weight : array-like of shape (n_rows,), default=None
        Sample weights, for training and for scoring. They stay with the rows of X.
    feature_groups : dict or sequence, default=None
        Columns whose scores are summed, as in `importance`.
    resume : str or path, default=None
        A checkpoint file with one line per finished permutation. If it exists, the test continues from there, possibly
        to a larger number of permutations; with ``random_state=None`` it continues with the seed of the file.
    n_jobs : int, default=None
        Number of processes, as in scikit-learn; -1 means all cores. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the permutations and fits.
    progress : bool, default=True
        Whether to show a progress bar in a terminal.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees, as in `importance`.

    Returns
    -------
    PermutationTestResult
        Scores, scores on permuted targets, and two kinds of p-values.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import truewood as tw
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> test = tw.permutation_test(RandomForestClassifier(10), X, y, n_permutations=9, random_state=0)
    >>> test.frame()["p_value"].tolist()[:2]
    [0.1, 0.1]
    """
    if not is_count(n_permutations, 2):
        raise ValueError(f"n_permutations must be a whole number of at least 2, got {quote(n_permutations)}.")
    check_n_jobs(n_jobs)
    check_estimator(estimator)
    check_in_memory(X, "permutation_test")
    if resume is not None:
        check_path(resume, "resume")
    refit = _Refit(estimator, X, y, sample_weight, measure, feature_groups, engine)
    seed = int(check_seed(random_state).randint(N_SEEDS))
    done: dict[int, list[float]] = {}
    if resume is not None:
        seed, done = _begin_or_resume(Path(resume), refit.fingerprint(), seed, is_free=random_state is None)
    # The original target comes first, in this process, so that errors surface right away.
    with keep_warning_filters():
        observed = refit.run(seed, 0)
    ahead = [number for number in range(1, n_permutations + 1) if number not in done]
    n_done = n_permutations - len(ahead)
    with (
        keep_warning_filters(),
        append_to(None if resume is None else Path(resume)) as append,
        show_progress("permutations", total=n_permutations, done=n_done, is_wanted=progress) as update,
    ):
        steps = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(refit.score)(seed, number) for number in ahead
        )
        for number, scores in steps:
            append({"permutation": number, "values": scores})
            done[number] = scores
            n_done += 1
            update(n_done)
    null = np.array([done[number] for number in range(1, n_permutations + 1)])
    return PermutationTestResult(observed.values, null, observed.feature_names, observed.measure)


@dataclass(frozen=True, eq=False)
class _Refit:
    """The estimator and data that every permutation fits and scores."""

    estimator: Any
    X: Any
    y: Any
    sample_weight: Any
    measure: str
    feature_groups: Any
    engine: str

    def run(self, seed: int, number: int) -> ImportanceResult:
        """Fit and score permutation `number` of the target, or the original target for 0."""
        rng = np.random.default_rng([seed, number])
        y = shuffle(self.y, random_state=int(rng.integers(N_SEEDS))) if number else self.y
        model = set_seeds(clone(self.estimator), int(rng.integers(N_SEEDS)))
        with name_text_columns(self.X, model):
            model.fit(self.X, y, **({} if self.sample_weight is None else {name_weight(model): self.sample_weight}))
        if number == 0:
            check_bags(model, "pass a forest with bootstrap")
        return importance(
            model,
            self.X,
            y,
            measure=self.measure,
            sample_weight=self.sample_weight,
            feature_groups=self.feature_groups,
            inference=False,
            engine=self.engine,
            random_state=int(rng.integers(N_SEEDS)),
        )

    def score(self, seed: int, number: int) -> tuple[int, list[float]]:
        """Return the number and the scores of a permutation."""
        return number, self.run(seed, number).values.tolist()

    def fingerprint(self) -> dict[str, str]:
        """Hash everything that identifies this test; the container of the data does not matter."""
        names = np.asarray(read_shape(self.X, [])[1], dtype=np.str_)
        weight = None if self.sample_weight is None else np.asarray(self.sample_weight, dtype=np.float64)
        parts = {
            "X": _identify_rows(self.X, type(self.estimator).__name__),
            "y": np.ascontiguousarray(self.y),
            "sample_weight": weight,
            "estimator": self.estimator,
            "measure": self.measure,
            "feature_groups": None if self.feature_groups is None else read_feature_groups(self.feature_groups, names),
        }
        return {name: joblib.hash(part) for name, part in parts.items()}


def _identify_rows(X: Any, model: str) -> Any:
    """Return what identifies X: its numbers, or hashes of its rows if a pipeline encodes text columns."""
    if read_names(X) is not None:
        table = X if isinstance(X, pd.DataFrame) else nw.from_native(X, eager_only=True).to_pandas()
        if table.select_dtypes(exclude=["number", "bool"]).shape[1]:
            return pd.util.hash_pandas_object(table, index=False).to_numpy()
    return read_features(X, InputSpec(model, None, dtype="float64")).parts


def _begin_or_resume(
    path: Path, fingerprint: dict[str, str], seed: int, *, is_free: bool
) -> tuple[int, dict[int, list[float]]]:
    """Return seed and finished permutations of a file; a new or empty file is started."""
    label = f"resume={str(path)!r}"
    head = read_first_entry(path)
    if head is None:
        with append_to(path) as append:
            append({"format": _FORMAT, "seed": seed, **fingerprint})
        return seed, {}
    if head.get("format") != _FORMAT:
        raise ValueError(f"{label} must be a new file or one written by permutation_test; pass another file.")
    expected = fingerprint if is_free else {"seed": seed, **fingerprint}
    other = ["random_state" if name == "seed" else name for name, mark in expected.items() if head.get(name) != mark]
    if other:
        raise ValueError(
            f"{label} was started with a different {' and a different '.join(other)}; continue with the same one, or "
            "pass a new file."
        )
    entries = read_entries(path, keys={"permutation", "values"}, label=label, after=1)
    return head["seed"], {entry["permutation"]: entry["values"] for entry in entries}

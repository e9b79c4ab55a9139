"""Integrations with other tools: a check for skore's reports."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from truewood._cross_importance import cross_importance
from truewood._formatting import count, format_percent, list_names
from truewood._importance import importance
from truewood._pipelines.final_estimator import find_final_estimator
from truewood._results.importance_result import ImportanceResult
from truewood.adapters import open_model

__all__ = ["SkoreCheck"]

# Number of features to name in a finding.
_LISTED = 3


class SkoreCheck:
    """Check of a skore report: do features without significant importance look important in the model?

    The usual importance of trees, mean decrease in impurity (MDI), is inflated for features with many possible splits.
    skore's own check SKD007 warns about such features, based on their number of values. This one scores all
    features on rows that the trees were not trained on, and names those that look important but are not
    significant. These rows are the out-of-bag rows of a forest with bootstrap, the test rows of the report for
    other models, and the test rows of all folds for a cross-validation report. Nothing is refit.

    Parameters
    ----------
    alpha : float, default=0.05
        Significance level for p-values adjusted by the Benjamini-Hochberg procedure.
    min_share : float, default=0.1
        Features that are not significant are reported if together they have at least this share of the total MDI.

    Attributes
    ----------
    code, title, report_types, docs_url, severity, slow
        As in ``skore.Check``.

    Examples
    --------
    With skore installed::

        report = skore.evaluate(RandomForestRegressor(), X, y, splitter=0.2)
        report.checks.add([truewood.integrations.SkoreCheck()])
        report.checks.summarize()
    """

    code = "TRUEWOOD"
    title = "Features look important on training rows only"
    docs_url = "https://truewood.github.io/truewood/howto/integrations.html#skore"
    severity: Literal["tip"] = "tip"
    slow = False

    def __init__(self, *, alpha: float = 0.05, min_share: float = 0.1) -> None:
        self.alpha = alpha
        self.min_share = min_share
        self.report_types = ["estimator", "cross-validation"]

    def check_function(self, report: Any) -> str | None:
        """Score the model of a report.

        Parameters
        ----------
        report : skore.EstimatorReport or skore.CrossValidationReport
            The report.

        Returns
        -------
        str or None
            The finding; None if features that are not significant have less than `min_share` of the total MDI.

        Raises
        ------
        skore.CheckNotApplicable
            If truewood cannot score the model, or has no p-values for it.
        """
        from skore import CheckNotApplicable

        try:
            result = _score_report(report)
        except (TypeError, ValueError) as error:
            raise CheckNotApplicable(f"truewood cannot score this report: {error}") from error
        if result.inference_unavailable is not None:
            raise CheckNotApplicable(f"truewood has no p-values for this report: {result.inference_unavailable}.")
        return _describe(result, self.alpha, self.min_share)


def _score_report(report: Any) -> ImportanceResult:
    """Score a report on rows that the trees were not trained on."""
    if hasattr(report, "reports_"):  # of the folds
        train, test = zip(*report.split_indices, strict=True)
        fitted = {"estimator": [fold.estimator_ for fold in report.reports_], "indices": {"train": train, "test": test}}
        return cross_importance(fitted, report.X, report.y, progress=False)
    model = report.estimator_
    if report.X_train is not None and open_model(find_final_estimator(model)).has_bags:
        return importance(model, report.X_train, report.y_train, rows="oob")
    return importance(model, report.X_test, report.y_test, rows="heldout")


def _describe(result: ImportanceResult, alpha: float, min_share: float) -> str | None:
    """Name the features that only MDI calls important, the largest first."""
    is_significant = result.select(alpha)
    mdi = result.mdi / result.mdi.sum()
    others = np.flatnonzero(~is_significant)
    share = float(mdi[others].sum())
    if not share >= min_share:
        return None
    others = others[np.argsort(-mdi[others], kind="stable")]
    named = [f"{result.feature_names[j]} ({format_percent(100 * mdi[j])})" for j in others[:_LISTED]]
    rest = f" and {count(len(others) - _LISTED, 'other')}" if len(others) > _LISTED else ""
    found = list_names(result.feature_names[result.order][is_significant[result.order]].tolist())
    rows = {"oob": "out-of-bag rows", "heldout": "test rows"}.get(result.rows, "test rows of the folds")
    verbs = ("accounts", "shows") if len(others) == 1 else ("account", "show")
    return (
        f"{count(len(others), 'feature')} of {len(mdi)} {verbs[0]} for {format_percent(100 * share)} of the mean "
        f"decrease in impurity (MDI) but {verbs[1]} no significant importance on the {result.n_rows:,} {rows}: "
        f"{', '.join(named)}{rest}. Significant features, the most important first: {found or 'none'}. "
        "truewood.importance shows scores with intervals and p-values."
    )


def __dir__() -> list[str]:
    return list(__all__)

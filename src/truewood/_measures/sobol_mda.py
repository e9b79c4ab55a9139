"""Sobol-MDA: what the model loses without a column, given the others (Benard, Da Veiga & Scornet 2022)."""

from __future__ import annotations

from truewood._inputs.target import TargetKind
from truewood._measures.measure import Measure
from truewood._measures.splits import Floats


def increase_loss(kind: TargetKind, residual: Floats, lost: Floats) -> Floats:
    """Increase of each row's squared error, or Brier score, without each group: (n_rows, n_groups, n_outputs).

    That is |y - m^(-j)|^2 - |y - m|^2.

    Parameters
    ----------
    kind : TargetKind
        What the model predicts.
    residual : ndarray of shape (n_rows, n_columns)
        y less the forest's prediction m; classes are one-hot.
    lost : ndarray of shape (n_rows, n_groups, n_columns)
        The prediction without the group, m^(-j), less m.
    """
    products = lost * (lost - 2.0 * residual[:, None, :])
    return kind.sum_columns(products.reshape(-1, kind.n_columns)).reshape(*lost.shape[:2], kind.n_outputs)


SOBOL_MDA = Measure(
    name="sobol_mda",
    summary="what the forest loses without a column, given the others (Sobol-MDA, Benard et al.); needs its bags",
    title="importance given the others (Sobol-MDA)",
    forest_loss=increase_loss,
    skips=False,
    unit={
        "classification": "increase in Brier score, share of Gini impurity",
        "regression": "increase in squared error, share of variance",
    },
)

"""Standard errors where every row scores a model that it did not grow, and grows the models of the other folds.

Is a score zero? Given the models, contributions phi of a fold's rows have mean zero; but models are random, too: of two
rows in different folds each scores a model that the other grew, so that their contributions vary together. A sum over
pairs of rows, of which each pair is in it twice, has twice the variance of the sum over rows that phi alone tells of.

How large is it? Then a row counts by growing models as much as by scoring them, phi + phi. docs/theory/folds.md has
what was measured.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood.inference.errors import Errors

Floats = NDArray[np.float64]


def measure_fold_errors(phi: Floats, per_fold: Floats, *, both_roles: float, unseen_per_grown: float) -> Errors:
    """How far means over folds may be off.

    Parameters
    ----------
    phi : ndarray of shape (n_rows, n_features)
        What rows, or groups of rows, add to the scores where they are held out, less the mean of their fold.
    per_fold : ndarray of shape (n_folds, n_features)
        Scores by fold.
    both_roles : float
        Of the rows that grew the model that a row scores, the share that score a model which that row grew: 1 for
        k-fold cross-validation, 0 where later rows are held out only.
    unseen_per_grown : float
        Rows that score a model, as a multiple of those that grew it.
    """
    squares = np.append((phi**2).sum(axis=0), (phi.sum(axis=1) ** 2).sum())
    tested = np.sqrt((1.0 + both_roles) * squares)
    spread = (1.0 + both_roles) ** 2 * squares[:-1]
    if len(per_fold) > 1:
        # What folds vary, with the correction of Nadeau & Bengio (2003) for models that share rows.
        varied = (1.0 / len(per_fold) + unseen_per_grown) * per_fold.var(axis=0, ddof=1)
        spread = np.where(spread > 0, np.maximum(spread, varied), 0.0)
    return Errors(test_error=tested[:-1], std_error=np.sqrt(spread), total_error=float(tested[-1]))

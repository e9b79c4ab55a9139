"""Other measures of interactions, to compare rankings and cost."""

from __future__ import annotations

import warnings

import numpy as np
from designs import Sample

import truewood as tw

Pairs = list[tuple[int, int]]


def rank_truewood(sample: Sample, pairs: Pairs) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = tw.interactions(sample.model, sample.X, sample.y, rows="heldout")
    scores = dict(zip(map(tuple, result.pairs.tolist()), result.values, strict=True))
    return np.array([scores[pair] for pair in pairs])


def rank_shap(sample: Sample, pairs: Pairs) -> np.ndarray:
    """Mean absolute SHAP interaction values (Lundberg et al. 2020)."""
    import shap

    values = shap.TreeExplainer(sample.model).shap_interaction_values(sample.X)
    return np.array([np.abs(values[:, j, k]).mean() for j, k in pairs])


def rank_h(sample: Sample, pairs: Pairs, n_rows: int = 50) -> np.ndarray:
    """Friedman & Popescu's (2008) H statistic, unnormalized, over 50 of the rows."""
    X = sample.X[:n_rows]
    n_features = X.shape[1]

    def depend(columns: tuple[int, ...]) -> np.ndarray:
        """Centered partial dependence at the rows."""
        grid = np.repeat(X[np.newaxis], n_rows, axis=0)  # (value, background)
        grid[:, :, columns] = X[:, np.newaxis, columns]
        means = sample.model.predict(grid.reshape(-1, n_features)).reshape(n_rows, n_rows).mean(axis=1)
        return means - means.mean()

    single = [depend((j,)) for j in range(n_features)]
    return np.array([((depend((j, k)) - single[j] - single[k]) ** 2).sum() for j, k in pairs])


def rank_iloco(sample: Sample, pairs: Pairs) -> np.ndarray:
    """ILOCO (Little, Zheng & Allen 2025): errors without j plus without k minus with both minus without both."""
    X, y = sample.train

    def lose(dropped: tuple[int, ...]) -> float:
        kept = [j for j in range(X.shape[1]) if j not in dropped]
        model = sample.make(0).fit(X[:, kept], y)
        return float(((sample.y - model.predict(sample.X[:, kept])) ** 2).mean())

    full, single = lose(()), [lose((j,)) for j in range(X.shape[1])]
    return np.array([single[j] + single[k] - full - lose((j, k)) for j, k in pairs])


PEERS = {"truewood": rank_truewood, "shap": rank_shap, "H": rank_h, "iLOCO": rank_iloco}

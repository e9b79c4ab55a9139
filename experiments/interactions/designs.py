"""Data sets with known interactions, and the models that are fit to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Sample:
    """A fitted model and its evaluation rows; the training rows again for methods that refit."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    make: Callable[[int], Any]
    train: tuple[np.ndarray, np.ndarray]
    sample_weight: np.ndarray | None = None
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class Design:
    """How to draw a data set, which pairs interact, and which pair to report on its own.

    `rows` is "oob", "heldout" or "folds"; models of folds are fit by `cross_interactions`. `draw_weights` draws weights
    of rows; `cluster_sizes` are the sizes of consecutive clusters of rows, which repeat. The study draws at most `most`
    data sets.
    """

    name: str
    draw_rows: Draw
    rows: str = "oob"
    n_rows: int = 400
    focus: tuple[int, int] = (0, 1)
    true_pairs: frozenset[tuple[int, int]] = frozenset()
    make: Callable[[int], Any] = field(default=lambda seed: forest(seed))
    most: int = 300
    draw_weights: Callable[[np.random.Generator, int], np.ndarray] | None = None
    cluster_sizes: tuple[int, ...] | None = None

    def draw(self, seed: int) -> Sample:
        """Draw a data set and fit a model."""
        rng = np.random.default_rng([seed, 20261118])
        train = self.draw_rows(rng, self.n_rows)
        weight = None if self.draw_weights is None else self.draw_weights(rng, self.n_rows)
        model = self.make(seed) if self.rows == "folds" else self.make(seed).fit(*train, sample_weight=weight)
        X, y = self.draw_rows(rng, self.n_rows) if self.rows == "heldout" else train
        groups = None if self.cluster_sizes is None else number_clusters(self.cluster_sizes, self.n_rows)
        return Sample(model, X, y, self.make, train, weight, groups)


def forest(seed: int, n_trees: int = 60) -> RandomForestRegressor:
    return RandomForestRegressor(n_trees, min_samples_leaf=5, max_features=0.5, random_state=seed)


def class_forest(seed: int) -> RandomForestClassifier:
    return RandomForestClassifier(60, min_samples_leaf=5, max_features=0.5, random_state=seed)


def boost(seed: int) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(max_iter=80, max_depth=4, min_samples_leaf=10, random_state=seed)


def boost_classes(seed: int, n_trees: int = 40) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        max_iter=n_trees, max_depth=3, learning_rate=0.1, min_samples_leaf=20, random_state=seed
    )


def main_effects(X: np.ndarray) -> np.ndarray:
    return X[:, 0] + np.sin(2 * X[:, 1]) + (X[:, 2] > 0) + X[:, 3] ** 2 / 2


def additive(p: int = 6, correlation: float = 0.0, joint: Callable[[np.ndarray], np.ndarray] | None = None) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, p))
        X[:, 1] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 1]
        y = main_effects(X) + rng.normal(size=n)
        return X, y if joint is None else y + joint(X)

    return draw


def kinds(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Binary, 5 levels, 20 levels, 3 levels, and two continuous columns, one of them skewed."""
    X = np.column_stack(
        [rng.integers(0, k, n) for k in (2, 5, 20, 3)] + [rng.normal(size=n), rng.exponential(size=n)]
    ).astype(float)
    y = 2 * X[:, 0] + np.array([0, 1, -1, 2, 0])[X[:, 1].astype(int)] + X[:, 2] / 5 + X[:, 4] + rng.normal(size=n)
    return X, y


def heteroscedastic(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 6))
    return X, main_effects(X) + np.exp(0.5 * (X[:, 0] + X[:, 1])) * rng.normal(size=n)


def missing(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = additive()(rng, n)
    X = X.copy()
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def rare_class(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes, one of them with 7% of the rows; probabilities are additive."""
    X = rng.normal(size=(n, 6))
    rare = 0.02 + 0.1 * (X[:, 0] > 0)
    common = 0.3 + 0.25 * (X[:, 1] > 0) + 0.1 * np.tanh(X[:, 2])
    drawn = rng.random(n)
    return X, np.where(drawn < rare, 2, np.where(drawn < rare + common, 1, 0))


def class_xor(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 6))
    p = 0.5 + 0.2 * np.sign(X[:, 2]) + 0.2 * np.sign(X[:, 0] * X[:, 1])
    return X, (rng.random(n) < p).astype(int)


def log_odds(joint: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 6))
        raw = 1.2 * X[:, 0] + 1.2 * X[:, 1] + (X[:, 2] > 0) + joint * X[:, 0] * X[:, 1]
        return X, (rng.random(n) < 1 / (1 + np.exp(-raw))).astype(int)

    return draw


def three_classes(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Additive log-odds of three classes."""
    X = rng.normal(size=(n, 6))
    raw = np.column_stack([np.zeros(n), 1.2 * X[:, 0] + 1.2 * X[:, 1], (X[:, 2] > 0) - X[:, 0]])
    return X, np.argmax(raw + rng.gumbel(size=raw.shape), axis=1)


def third_variable(is_seen: bool) -> Draw:
    """Two features that depend on a third one, which may be a column of the table."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        z, X = rng.normal(size=n), rng.normal(size=(n, 6))
        X[:, 0], X[:, 1] = (z + X[:, 0]) / np.sqrt(2), (z + X[:, 1]) / np.sqrt(2)
        if is_seen:
            X[:, 4] = z
        return X, main_effects(X) + z + rng.normal(size=n)

    return draw


def curved(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two uncorrelated features, one of which is nearly a function of the other."""
    X = rng.normal(size=(n, 6))
    X[:, 1] = (X[:, 0] ** 2 - 1) / np.sqrt(2) + 0.7 * X[:, 1]
    return X, main_effects(X) + rng.normal(size=n)


def strong(correlation: float) -> Draw:
    """Dependent features with strong, curved main effects."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 6))
        X[:, 1] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 1]
        return X, 2 * np.exp(X[:, 0] / 2) + 2 * np.abs(X[:, 1]) + 2 * X[:, 2] + rng.normal(size=n)

    return draw


def many(n_true: int, strength: float = 1.0) -> Draw:
    """30 features, five of them with main effects, and up to three products."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 30))
        y = main_effects(X) + X[:, 4] + rng.normal(size=n)
        for first, second in MANY[:n_true]:
            y = y + strength * X[:, first] * X[:, second]
        return X, y

    return draw


def proxy(kind: str, strength: float, p: int = 6) -> Draw:
    """Additive effects, one of them of a noisy function of the first two features, or of three."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, p))
        joint = {
            "product": X[:, 0] * X[:, 1],
            "sign": np.sign(X[:, 0] * X[:, 1]),
            "distance": (np.abs(X[:, 0] - X[:, 1]) - 2 / np.sqrt(np.pi)) / np.sqrt(2 - 4 / np.pi),
            "product of three": X[:, 0] * X[:, 1] * np.sign(X[:, 3]),
        }[kind]
        X[:, 4] = strength * joint + np.sqrt(1 - strength**2) * X[:, 4]
        return X, main_effects(X) + X[:, 4] + rng.normal(size=n)

    return draw


def shadow(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A product of the first two features, and a sixth one that is correlated with the first."""
    X, y = additive(joint=product)(rng, n)
    X[:, 5] = 0.8 * X[:, 0] + 0.6 * X[:, 5]
    return X, y


def number_clusters(sizes: tuple[int, ...], n: int) -> np.ndarray:
    """The cluster of each row."""
    repeated = np.tile(sizes, n // sum(sizes) + 1)
    return np.repeat(np.arange(len(repeated)), repeated)[:n]


def clusters(sizes: tuple[int, ...]) -> Draw:
    """Columns and errors that are partly the same in a cluster."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        of_row = number_clusters(sizes, n)
        X = 0.8 * rng.normal(size=(of_row[-1] + 1, 6))[of_row] + 0.6 * rng.normal(size=(n, 6))
        return X, main_effects(X) + rng.normal(size=of_row[-1] + 1)[of_row] + rng.normal(size=n)

    return draw


def exponential_weights(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.exponential(size=n) + 0.1


def lognormal_weights(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.lognormal(size=n)


def two_outputs(joint: Callable[[np.ndarray], np.ndarray] | None = None) -> Draw:
    """Two outputs; a joint effect is in the second one only."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 6))
        second = X[:, 0] - X[:, 4] + rng.normal(size=n)
        return X, np.column_stack(
            [main_effects(X) + rng.normal(size=n), second if joint is None else second + joint(X)]
        )

    return draw


def rare_class_joint(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes, one of them with 7% of the rows; two features together make it more frequent."""
    X = rng.normal(size=(n, 6))
    rare = 0.02 + 0.2 * ((X[:, 0] > 0) & (X[:, 1] > 0))
    common = 0.3 + 0.25 * (X[:, 2] > 0) + 0.1 * np.tanh(X[:, 3])
    drawn = rng.random(n)
    return X, np.where(drawn < rare, 2, np.where(drawn < rare + common, 1, 0))


MANY = [(0, 1), (2, 3), (4, 5)]
FIRST = frozenset({(0, 1)})


def product(X: np.ndarray) -> np.ndarray:
    return 0.5 * X[:, 0] * X[:, 1]


def xor(X: np.ndarray) -> np.ndarray:
    return np.sign(X[:, 0] * X[:, 1])


def switch(X: np.ndarray) -> np.ndarray:
    return 1.5 * X[:, 1] * (X[:, 0] > 0)


def three_way(X: np.ndarray) -> np.ndarray:
    return 1.5 * np.sign(X[:, 0] * X[:, 1]) * (X[:, 2] > 0)


# Sizes of clusters.
FIVES, UNEQUAL = (5,), (1, 2, 3, 9, 10)
GROUPED = (("heldout", "held out", 600), ("folds", "folds", 60))

DESIGNS = [
    Design("additive, out of bag", additive()),
    Design("additive, held out", additive(), "heldout"),
    Design("additive, 2,000 rows, out of bag", additive(), n_rows=2000, most=80),
    Design("kinds of columns", kinds),
    Design("heteroscedastic", heteroscedastic),
    Design("missing values", missing),
    Design("rare class", rare_class, make=class_forest, n_rows=600),
    Design("boosting, held out", additive(), "heldout", 500, make=boost),
    Design("boosted log-odds, held out", log_odds(0.0), "heldout", 1000, make=boost_classes, most=600),
    Design("30 features", many(0), n_rows=500, most=30),
    Design("third variable, seen", third_variable(True)),
    Design("third variable, hidden", third_variable(False)),
    *(
        Design(f"correlation {rho}, {words}", additive(correlation=rho), rows)
        for rho in (0.3, 0.5, 0.7, 0.9)
        for rows, words in (("oob", "out of bag"), ("heldout", "held out"))
    ),
    *(
        Design(f"correlation {rho}, 2,000 rows, held out", additive(correlation=rho), "heldout", 2000, most=30)
        for rho in (0.3, 0.5, 0.7)
    ),
    *(
        Design(f"boosting, correlation {rho}, held out", additive(correlation=rho), "heldout", 500, make=boost)
        for rho in (0.5, 0.7)
    ),
    *(
        Design(f"strong effects, correlation {rho}, {words}", strong(rho), rows, 1000)
        for rho in (0.5, 0.7)
        for rows, words in (("oob", "out of bag"), ("heldout", "held out"))
    ),
    Design("curved dependence, out of bag", curved),
    Design("curved dependence, held out", curved, "heldout"),
    Design("product", additive(joint=product), true_pairs=FIRST),
    Design("product, held out", additive(joint=product), "heldout", true_pairs=FIRST),
    *(
        Design(f"product, correlation {rho}", additive(correlation=rho, joint=product), true_pairs=FIRST)
        for rho in (0.5, 0.7)
    ),
    Design("xor", additive(joint=xor), true_pairs=FIRST),
    Design("switch", additive(joint=switch), true_pairs=FIRST),
    Design("three-way", additive(joint=three_way), true_pairs=frozenset(combinations(range(3), 2))),
    Design("class xor", class_xor, make=class_forest, true_pairs=FIRST),
    Design("boosting, product, held out", additive(joint=product), "heldout", 500, true_pairs=FIRST, make=boost),
    Design("boosted log-odds, product, held out", log_odds(0.8), "heldout", 1000, true_pairs=FIRST, make=boost_classes),
    Design("30 features, 3 products", many(3), n_rows=1000, true_pairs=frozenset(MANY), most=30),
    *(
        Design(f"proxy of a {kind}, strength {strength}, held out", proxy(kind, strength), "heldout")
        for kind in ("product", "sign", "distance", "product of three")
        for strength in (0.5, 0.8, 0.95)
    ),
    *(
        Design(f"boosting, proxy of a {kind}, held out", proxy(kind, 0.8), "heldout", 500, make=boost)
        for kind in ("product", "sign", "distance", "product of three")
    ),
    Design("proxy of a product, out of bag", proxy("product", 0.8)),
    Design("proxy of a sign, out of bag", proxy("sign", 0.8)),
    Design("proxy of a product, 1,000 rows, held out", proxy("product", 0.8), "heldout", 1000, most=80),
    Design("proxy of a product, 30 features, held out", proxy("product", 0.8, 30), "heldout", 500, most=40),
    Design("shadow of a feature that interacts", shadow, focus=(1, 5), true_pairs=FIRST),
    Design("folds", additive(), "folds", most=60),
    Design("boosting, folds", additive(), "folds", make=boost, most=60),
    Design("boosting, product, folds", additive(joint=product), "folds", true_pairs=FIRST, make=boost, most=60),
    Design("weights, out of bag", additive(), draw_weights=exponential_weights),
    Design("weights, held out", additive(), "heldout", draw_weights=exponential_weights),
    Design("weights, product, out of bag", additive(joint=product), true_pairs=FIRST, draw_weights=exponential_weights),
    *(
        Design(f"clusters, {words}", clusters(FIVES), rows, cluster_sizes=FIVES, most=most)
        for rows, words, most in GROUPED
    ),
    Design("two outputs", two_outputs()),
    Design("two outputs, product", two_outputs(product), true_pairs=FIRST),
    Design("rare class, joint", rare_class_joint, make=class_forest, n_rows=600, true_pairs=FIRST),
    Design("boosting, 30 features, held out", many(0), "heldout", 500, make=boost, most=40),
    Design(
        "boosting, 30 features, 3 products, held out",
        many(3),
        "heldout",
        1000,
        true_pairs=frozenset(MANY),
        make=boost,
        most=40,
    ),
    *(
        Design(f"correlation {rho}, 8,000 rows, held out", additive(correlation=rho), "heldout", 8000, most=20)
        for rho in (0.3, 0.5, 0.7)
    ),
    # Designs that the method was not adjusted to.
    Design("lognormal weights, out of bag", additive(), draw_weights=lognormal_weights),
    Design(
        "lognormal weights, product, out of bag",
        additive(joint=product),
        true_pairs=FIRST,
        draw_weights=lognormal_weights,
    ),
    *(
        Design(f"unequal clusters, {words}", clusters(UNEQUAL), rows, cluster_sizes=UNEQUAL, most=most)
        for rows, words, most in GROUPED
    ),
    Design("12 features, 250 rows, held out", additive(12), "heldout", 250),
    Design("boosting, 12 features, 250 rows, held out", additive(12), "heldout", 250, make=boost),
    Design("boosting, strong effects, correlation 0.5, held out", strong(0.5), "heldout", 500, make=boost),
    Design("boosting, heteroscedastic, held out", heteroscedastic, "heldout", 500, make=boost),
    Design("boosting, switch, held out", additive(joint=switch), "heldout", 500, true_pairs=FIRST, make=boost),
    *(
        Design(
            f"boosted log-odds, {n_trees} trees, held out",
            log_odds(0.0),
            "heldout",
            1000,
            make=partial(boost_classes, n_trees=n_trees),
        )
        for n_trees in (15, 250)
    ),
    Design("boosted classes, held out", three_classes, "heldout", 1000, make=boost_classes),
]

PEER_DESIGNS = [
    Design("product", additive(8, joint=product), "heldout", true_pairs=FIRST),
    Design("weak product", additive(8, joint=lambda X: 0.5 * product(X)), "heldout", true_pairs=FIRST),
    Design("product, correlation 0.5", additive(8, correlation=0.5, joint=product), "heldout", true_pairs=FIRST),
    Design("three-way", additive(8, joint=three_way), "heldout", true_pairs=frozenset(combinations(range(3), 2))),
    Design("30 features, 3 weak products", many(3, 0.5), "heldout", true_pairs=frozenset(MANY)),
]

# Designs whose intervals are compared with the expected score.
COVERAGE = [
    "additive, out of bag",
    "additive, held out",
    "product",
    "product, held out",
    "xor",
    "boosting, product, held out",
]

"""
Boosted trees and held-out rows
===============================

A boosted model is fit to three informative columns and eight columns of noise. The usual importance ranks two of the
informative columns behind all noise; on held-out rows, all three rank first and are significant.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import train_test_split

import truewood as tw

# What customers spend depends on their income, their membership and their children. Eight other columns are noise.
rng = np.random.default_rng(0)
n = 1500
X = pd.DataFrame({"income": rng.normal(0, 1, n), "member": rng.integers(0, 2, n), "children": rng.integers(0, 3, n)})
X = X.join(pd.DataFrame(rng.normal(0, 1, (n, 8)), columns=[f"noise {k}" for k in range(1, 9)]))
y = X["income"] + 0.6 * X["member"] - 0.3 * X["children"] + rng.normal(0, 1.5, n)

# Every boosted tree depends on all training rows, so the model is scored on held-out rows. A third set tests the
# selection.
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=500, random_state=0)
X_heldout, X_test, y_heldout, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)
model = GradientBoostingRegressor(max_depth=4, random_state=0).fit(X_train, y_train)

result = tw.importance(model, X_heldout, y_heldout, rows="heldout", n_jobs=2)
table = result.frame()[["feature", "importance", "p_value", "rank", "mdi_rank"]]
print(table.round(3).to_string(index=False))

# At most 5% of the selected columns are expected to be false discoveries.
kept = result.select(alpha=0.05, correction="bh")
print("\nkeep:", ", ".join(result.feature_names[kept]))

smaller = GradientBoostingRegressor(max_depth=4, random_state=0).fit(X_train.loc[:, kept], y_train)
print(f"R2 with all columns: {model.score(X_test, y_test):.2f}")
print(f"R2 with the {kept.sum()} selected columns: {smaller.score(X_test.loc[:, kept], y_test):.2f}")

# Biased ranks next to unbiased ones.
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
result.plot("compare", ax=ax)
plt.show()

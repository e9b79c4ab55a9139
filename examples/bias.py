"""
Noise with many levels looks important
======================================

The usual importance rewards features for offering many possible splits. Here, six features with 2 to 64 levels are pure
noise, and only one feature, with 2 levels, is informative. ``feature_importances_`` ranks noise first. On out-of-bag
rows, noise scores around zero, and the informative feature ranks first.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import truewood as tw

rng = np.random.default_rng(3)
n = 1000
X = pd.DataFrame({f"noise, {levels} levels": rng.integers(0, levels, n) for levels in (2, 4, 8, 16, 32, 64)})
X.insert(0, "informative, 2 levels", rng.integers(0, 2, n))
y = rng.random(n) < np.where(X["informative, 2 levels"] == 1, 0.65, 0.35)

forest = RandomForestClassifier(200, random_state=0).fit(X, y)
result = tw.importance(forest, X, y)
table = result.frame().set_index("feature")
print("rank of the informative feature, biased:", table.loc["informative, 2 levels", "mdi_rank"])
print("rank of the informative feature, truewood:", table.loc["informative, 2 levels", "rank"])
print("found:", ", ".join(result.feature_names[result.select(alpha=0.05)]))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
names, places = X.columns[::-1], range(X.shape[1])
colors = ["#bbbbbb"] * (X.shape[1] - 1) + ["#0072b2"]
low, high = result.interval()
left.barh(places, result.mdi[::-1], color=colors)
left.set(title="Evaluated on training rows (mdi)", yticks=places, yticklabels=names)
right.barh(places, result.values[::-1], color=colors)
right.hlines(places, low[::-1], high[::-1], color="black", linewidth=1)
right.axvline(0, color="black", linewidth=0.8)
right.set(title="Evaluated on out-of-bag rows, 95% intervals")
for ax in (left, right):
    ax.set_xlabel("importance")
plt.show()

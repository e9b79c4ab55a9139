"""
Used or needed?
===============

A forest may use a feature that it does not need. Here, the features are a signal, a noisy copy of the signal, another
signal, and noise. The trees use the copy: it is informative wherever they have not yet split on the signal often
enough. But they do not need it: without the copy, they would predict just as well. One measure shows what is used, the
other what is needed.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import truewood as tw

rng = np.random.default_rng(0)
n = 400
signal, other = rng.normal(size=(2, n))
X = pd.DataFrame({"signal": signal, "its copy": signal + 0.3 * rng.normal(size=n), "other signal": other})
X["noise"] = rng.normal(size=n)
y = signal + 0.5 * other + 0.7 * rng.normal(size=n)
forest = RandomForestRegressor(200, min_samples_leaf=5, random_state=0).fit(X, y)

used = tw.importance(forest, X, y)
needed = tw.importance(forest, X, y, measure="sobol_mda")
table = pd.DataFrame({"used": used.p_value, "needed": needed.p_value}, index=used.feature_names)
print("p-values:", table.round(3), sep="\n")

figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
for ax, result, title in zip(axes, (used, needed), ("Used (ufi_centered)", "Needed (sobol_mda)"), strict=True):
    share, (low, high) = result.share, np.array(result.interval()) * result.share / result.values
    ax.errorbar(100 * share, range(4), xerr=100 * np.array([share - low, high - share]), fmt="o", color="#0072b2")
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set(title=title, xlabel="% of the target's variance", yticks=range(4), yticklabels=result.feature_names)
axes[0].invert_yaxis()
plt.show()

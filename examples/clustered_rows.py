"""
Several rows per patient
========================

Clustered rows make noise look like signal. Here, sixty patients have eight visits each. A patient's age is unrelated to
the target, but age and part of the target are the same in all visits of a patient. Most out-of-bag rows are visits of
patients whose other visits the tree was trained on, so the tree recognizes these patients by their age. Age then looks
significant, and truewood warns that neighboring rows have correlated contributions. With ``groups=``, all visits of a
patient are in the same fold, and standard errors are cluster-robust: age is no longer significant.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import truewood as tw

rng = np.random.default_rng(1)
patient = np.repeat(np.arange(60), 8)
X = pd.DataFrame({"age": rng.normal(size=60)[patient], "dose": rng.normal(size=480)})
y = rng.normal(size=60)[patient] + 0.4 * X["dose"] + 0.7 * rng.normal(size=480)

forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=0)
ignored = tw.importance(forest.fit(X, y), X, y)
grouped = tw.cross_importance(forest, X, y, groups=patient)
table = pd.DataFrame({"ignored": ignored.p_value, "groups": grouped.p_value}, index=X.columns)
print("p-values:", table.round(3), sep="\n")

figure, ax = plt.subplots(figsize=(8, 2.6), layout="constrained")
for shift, result, label in ((-0.12, ignored, "patients ignored"), (0.12, grouped, "groups=patient")):
    low, high = np.array(result.interval()) * 100 / result.impurity
    share, places = 100 * result.values / result.impurity, np.arange(2) + shift
    ax.errorbar(share, places, xerr=[share - low, high - share], fmt="o", label=label)
ax.axvline(0, color="black", linewidth=0.8)
ax.set(xlabel="% of the target's variance, 95% intervals", yticks=[0, 1], yticklabels=X.columns, ylim=(1.6, -0.6))
ax.legend()
plt.show()

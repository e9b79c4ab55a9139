"""
Selection inside cross-validation
=================================

A test score is honest only if the test rows had no part in selecting features. Here, three of sixty columns are useful.
In cross-validation, a selector in the pipeline chooses columns anew for each fold, from the training rows of that fold
alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import cross_validate
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import truewood as tw

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 60))
y = X[:, 0] + X[:, 1] - 0.7 * X[:, 2] + rng.normal(size=400)

forest = RandomForestRegressor(60, min_samples_leaf=5, max_features=0.33, random_state=0)
plain = make_pipeline(StandardScaler(), KNeighborsRegressor(15))
chosen = make_pipeline(tw.UnbiasedSelector(forest, alpha=0.05), StandardScaler(), KNeighborsRegressor(15))

before = cross_validate(plain, X, y, cv=5)
after = cross_validate(chosen, X, y, cv=5, return_estimator=True)
kept = np.array([pipeline[0].get_support() for pipeline in after["estimator"]])
print("kept in every fold:", np.flatnonzero(kept.all(axis=0)))
print(f"R2 with all columns: {before['test_score'].mean():.2f}")
print(f"R2 with the selected columns: {after['test_score'].mean():.2f}")

figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
ax.bar(range(60), kept.sum(axis=0), color=["#0072b2"] * 3 + ["#bbbbbb"] * 57)
ax.set(xlabel="column; the first three are useful", ylabel="folds that select it", yticks=range(6))
plt.show()

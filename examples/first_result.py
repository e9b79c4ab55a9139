"""
A first result
==============

Which measurements predict the progression of diabetes? Pass a fitted forest and its training data to ``importance``.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import truewood as tw

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
forest = RandomForestRegressor(min_samples_leaf=5, random_state=0).fit(X, y)

# Each tree is scored on its out-of-bag rows: no test set is needed, and nothing is refit.
result = tw.importance(forest, X, y)
print(result)

# Points are shares of the target's variance with 95% intervals; filled points mark significant features.
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
result.plot(ax=ax)
plt.show()

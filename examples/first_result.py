"""
A first result
==============

A forest, its training data, one call: which features does it use, in a way that holds for rows the trees never
saw?
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import truewood as tw

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
forest = RandomForestRegressor(min_samples_leaf=5, random_state=0).fit(X, y)

# Each tree is scored on the rows that were left out of its bag: no test set is needed, and nothing is fit again.
result = tw.importance(forest, X, y)
print(result)

# Points are shares of the target's variance with 95 % intervals; filled ones were found.
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
result.plot(ax=ax)
plt.show()

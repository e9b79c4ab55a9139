"""
Boosting without a test set
===========================

Boosted trees have no out-of-bag rows, because every tree depends on all rows. If you have no rows to spare for a test
set, use cross-validation: five models are fit, and each row evaluates the one model that did not see it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor

import truewood as tw

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = HistGradientBoostingRegressor(max_iter=40, max_depth=3, random_state=0)

result = tw.cross_importance(model, X, y, cv=5)
table = result.frame()[["feature", "importance", "fold_std", "p_value", "rank"]]
print(table.head(4).round(3).to_string(index=False))

# One box per feature: the scores of the five models.
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
result.plot("box", ax=ax)
plt.show()

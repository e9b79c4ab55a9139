"""
Boosting without a test set
===========================

Boosted trees have no out-of-bag rows, because every tree is trained on all rows. If you have no rows to spare for a
test set, use cross-validation: each row evaluates the one model that was fit without it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor

import truewood as tw

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = HistGradientBoostingRegressor(max_iter=40, max_depth=3, random_state=0)

result = tw.cross_importance(model, X, y, cv=5)
print(result.frame()[["feature", "share", "p_value", "fold_std", "rank"]].head(4).round(3).to_string(index=False))

# One box per feature: how much the five models differ.
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
result.plot("box", ax=ax)
plt.show()

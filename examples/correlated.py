"""
Correlated features as one
==========================

Thirty measurements of cell nuclei, of which many tell the same: radius, perimeter and area are one thing. Scored
as groups they have one score and one test each, and the question which of them it is does not come up.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import truewood as tw

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
forest = RandomForestClassifier(200, random_state=0).fit(X, y)

groups = tw.correlated_groups(X, threshold=0.7)
print(f"{X.shape[1]} columns, {len(groups)} groups")
result = tw.importance(forest, X, y, feature_groups=groups)
print("found:", result.select(alpha=0.05).sum())

# The tree of the columns; the line is where it is cut.
figure, ax = plt.subplots(figsize=(8, 7), layout="constrained")
groups.plot(ax=ax)
plt.show()

"""
Correlated features as one
==========================

Thirty columns describe cell nuclei, and many of them are nearly redundant, such as radius, perimeter and area.
``correlated_groups`` combines such columns into groups, and each group gets one score and one test.
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
print("significant groups:", result.select(alpha=0.05).sum())

# The dendrogram of the columns; the line shows where it is cut into groups.
figure, ax = plt.subplots(figsize=(8, 7), layout="constrained")
groups.plot(ax=ax)
plt.show()

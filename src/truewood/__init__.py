"""Which features does a tree model really use?

Split importances of trees are biased: a feature with many possible splits looks important even when it is pure noise,
because splits are judged on the rows that chose them. truewood scores the same splits on rows the tree never saw.
"""

from importlib.metadata import version as _version

from truewood.adapters import register_adapter, to_ensemble
from truewood.corrected import corrected_importance
from truewood.ensemble import TreeEnsemble
from truewood.forests import (
    UnbiasedExtraTreesClassifier,
    UnbiasedExtraTreesRegressor,
    UnbiasedRandomForestClassifier,
    UnbiasedRandomForestRegressor,
)
from truewood.importance import importance
from truewood.measures import measures
from truewood.node_sums import NodeSums
from truewood.permutation_test import permutation_test
from truewood.result import ImportanceResult
from truewood.routing import NativeEngineWarning
from truewood.saving import load
from truewood.selection import UnbiasedSelector
from truewood.target import TargetKind
from truewood.versions import show_versions

__version__ = _version("truewood")

__all__ = [
    "ImportanceResult",
    "NativeEngineWarning",
    "NodeSums",
    "TargetKind",
    "TreeEnsemble",
    "UnbiasedExtraTreesClassifier",
    "UnbiasedExtraTreesRegressor",
    "UnbiasedRandomForestClassifier",
    "UnbiasedRandomForestRegressor",
    "UnbiasedSelector",
    "corrected_importance",
    "importance",
    "load",
    "measures",
    "permutation_test",
    "register_adapter",
    "show_versions",
    "to_ensemble",
]

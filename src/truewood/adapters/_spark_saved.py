"""`load_spark_model`: read saved Spark ML models without Spark.

A saved model is a folder with "metadata", a JSON text file, and usually "data", Parquet files. An ensemble also has
"treesMetadata", with column names that changed in Spark 4.1, and a PipelineModel stores its stages in "stages".
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_path
from truewood.adapters._spark_model import TREE_MODELS, TREES, SparkModel
from truewood.adapters._spark_nodes import LISTS, NUMBERS, add_trees


def load_spark_model(path: str | os.PathLike[str]) -> SparkModel:
    """Load a saved Spark ML model without Spark or Java; needs pyarrow.

    Parameters
    ----------
    path : str or path
        The folder that ``model.save(path)`` wrote, on a local disk.

    Returns
    -------
    SparkModel
        A model for `importance`: a tree, forest or boosted model of Spark ML, or a PipelineModel that ends in one.

    Raises
    ------
    ValueError
        If the folder contains no saved model, an incomplete one, or one without trees.
    """
    check_path(path, "path")
    folder = Path(path)
    model = _load_stage(folder)
    if model.name not in TREE_MODELS and not model.stages:
        raise ValueError(f"{folder} must hold a tree model of Spark ML or a PipelineModel, got a {model.name}.")
    return model


def _load_stage(folder: Path) -> SparkModel:
    metadata = _read_metadata(folder)
    try:
        name, version = metadata["class"].rpartition(".")[2], metadata["sparkVersion"]
        params = {**metadata.get("defaultParamMap", {}), **metadata["paramMap"]}
        uids = params.get("stageUids") if name == "PipelineModel" else None
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder} must hold a saved model of Spark ML, but its metadata describes something else."
        ) from error
    if uids is not None:
        stages = tuple(_load_stage(_find_stage(folder, place, uid)) for place, uid in enumerate(uids))
        return SparkModel(name, version, params, stages=stages)
    if name in TREE_MODELS:
        return _load_trees(folder, SparkModel(name, version, params), metadata)
    learned = _read_table(folder, "data").to_pylist()[:1] if name in _LEARNED else []
    return SparkModel(name, version, params, learned=learned[0] if learned else {})


# Stages with fitted attributes, stored as a single row.
_LEARNED = ("StringIndexerModel", "OneHotEncoderModel")


def _read_metadata(folder: Path) -> dict[str, Any]:
    inner = folder / "metadata"
    if not inner.is_dir():
        what = (
            "does not exist"
            if not folder.exists()
            else "is not a folder with a saved model of Spark ML: it has no metadata"
        )
        raise ValueError(f"{folder} {what}.")
    for part in sorted(inner.glob("part-*")):
        text = part.read_text(encoding="utf-8").strip()
        if text:
            try:
                found: dict[str, Any] = json.loads(text.partition("\n")[0])
            except ValueError as error:
                raise ValueError(f"{part} is not the metadata of a model of Spark ML: {error}.") from error
            return found
    raise ValueError(f"{inner} contains no metadata: the model was not saved completely; save it again.")


def _find_stage(folder: Path, place: int, uid: str) -> Path:
    """Folder of a stage; its index is padded to as many digits as the number of stages has."""
    found = [
        part
        for part in (folder / "stages").glob(f"*_{uid}")
        if part.name.partition("_")[0].lstrip("0") == (str(place) if place else "")
    ]
    if len(found) != 1:
        raise ValueError(
            f"{folder} must hold stage {place} ({uid}) of the PipelineModel, which is missing; save it again."
        )
    return found[0]


def _read_table(folder: Path, name: str) -> Any:
    import pyarrow as pa
    from pyarrow import dataset

    try:
        table = dataset.dataset(folder / name, format="parquet").to_table()
    except (OSError, pa.ArrowException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{folder / name} cannot be read as Parquet: {reason}; save the model again.") from error
    if not table.num_rows:
        raise ValueError(f"{folder / name} contains no rows: the model was not saved completely; save it again.")
    return table


def _load_trees(folder: Path, model: SparkModel, metadata: dict[str, Any]) -> SparkModel:
    table = _read_table(folder, "data")
    try:
        return add_trees(
            model,
            _read_nodes(table),
            n_features=int(metadata["numFeatures"]),
            n_classes=int(metadata.get("numClasses", 0)),
            tree_weight=np.ones(1) if model.name in TREES else _read_weights(folder),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{folder} does not contain the complete {model.name}: {error}; save it again.") from error


def _read_nodes(table: Any) -> dict[str, NDArray[Any]]:
    """Fields of the nodes; a single tree has no treeID, and Spark 2 stores no rawCount."""
    import pyarrow as pa

    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    columns = {name.rpartition(".")[2]: table.column(place) for place, name in enumerate(table.column_names)}
    nodes = {"treeID": np.zeros(len(table), dtype=np.int64), "rawCount": np.full(len(table), -1)}
    nodes |= {name: columns[name].to_numpy() for name in NUMBERS if name in columns or name not in nodes}
    for name in LISTS:
        lists = columns[name].combine_chunks()
        nodes[name], nodes[f"#{name}"] = lists.flatten().to_numpy(), lists.value_lengths().to_numpy()
    return nodes


def _read_weights(folder: Path) -> NDArray[np.float64]:
    """Weight of each tree. Columns are tree index, metadata and weight, with version-dependent names."""
    table = _read_table(folder, "treesMetadata")
    number, _, weight = (table.column(place).to_numpy() for place in range(3))
    in_order: NDArray[np.float64] = weight[np.argsort(number)]
    return in_order

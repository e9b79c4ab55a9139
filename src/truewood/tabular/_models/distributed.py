"""Score a saved model on Parquet files with Dask or Spark: workers keep the rows and return sums."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from truewood._arguments import is_choice
from truewood._extras import explain_missing
from truewood._formatting import quote
from truewood._importance import importance
from truewood._message import Message
from truewood.tabular._columns.roles import Roles
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.many_files import check_parts_suffice, make_score
from truewood.tabular._models.saved_model import SavedModel
from truewood.tabular._models.scoring import Scoring
from truewood.tabular._table_score import ColumnSummary, TableScore


def score_distributed(
    saved: SavedModel,
    table: Any,
    roles: Roles,
    *,
    backend: str,
    address: str | None,
    scoring: Scoring,
    messages: Messages,
) -> TableScore:
    """Score a saved model on Parquet files with "dask" or "spark"; see `score_saved_model`."""
    if not is_choice(backend, _OPENERS):
        raise TableError(f"must be one of {', '.join(BACKENDS)}, got {quote(backend)}.", "backend")
    check_parts_suffice(scoring)
    if not isinstance(table, str | os.PathLike):
        raise TableError(f"must be the location of Parquet files, got {type(table).__name__}.", "table")
    if saved.levels:
        raise TableError(
            Message(
                f"the model has categorical columns, which backend {backend!r} does not support.",
                "Pass {backend}.",
                backend="local",
            ),
            "saved_model",
        )
    with _OPENERS[backend](os.fspath(table), address) as frame:
        roles.check([str(name) for name in frame.columns])
        result = importance(
            saved.model,
            frame.drop(*roles.drop) if backend == "spark" else frame.drop(columns=list(roles.drop)),
            roles.target,
            rows="heldout",
            measure=scoring.measure,
            sample_weight=roles.sample_weight,
            engine=scoring.engine,
        )
        dtypes = {
            str(name): str(dtype) for name, dtype in (frame.dtypes if backend == "spark" else frame.dtypes.items())
        }
    used = [name for name in result.feature_names.tolist() if name in dtypes]
    columns = [ColumnSummary(name, dtypes[name], is_used=True) for name in used]
    return make_score(saved, table, result, None, columns, read_by=f"by {backend}", scoring=scoring, messages=messages)


@contextmanager
def _open_dask(path: str, address: str | None) -> Iterator[Any]:
    _check_installed("dask", "dask")
    import dask.dataframe as dd
    from dask.distributed import Client

    try:
        client = None if address is None else Client(address)
    except (OSError, ValueError) as error:
        raise TableError(
            f"no Dask scheduler at {address}: {_take_line(error)}. Start one there, or pass another address.", "address"
        ) from error
    try:
        try:
            frame = dd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise TableError(
                f"{path} cannot be read as Parquet: {_take_line(error)}. {_CHECK_FILES}", "table"
            ) from error
        yield frame
    finally:
        if client is not None:
            client.close()


@contextmanager
def _open_spark(path: str, address: str | None) -> Iterator[Any]:
    """Open a frame in a Spark session, which is stopped afterwards unless it existed before."""
    _check_installed("pyspark", "spark")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder, before = SparkSession.builder.appName("truewood"), SparkSession.getActiveSession()
    if address is not None:
        builder = builder.remote(address) if address.startswith("sc://") else builder.master(address)
    try:
        session = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        where = "with Spark's configuration" if address is None else f"at {address}"
        raise TableError(
            f"no Spark session {where}: {_take_line(error)}. Start Spark there, or pass another address, such as "
            "local[*] for this machine.",
            "address",
        ) from error
    try:
        yield session.read.parquet(path)
    except PySparkException as error:
        raise TableError(f"Spark cannot read or score {path}: {_take_line(error)}. {_CHECK_FILES}", "table") from error
    finally:
        if before is None:
            session.stop()


def _take_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def _check_installed(module: str, backend: str) -> None:
    problem = explain_missing(f"{backend!r} needs", [module], backend)
    if problem is not None:
        raise TableError(problem, "backend")


_OPENERS: dict[str, Callable[[str, str | None], AbstractContextManager[Any]]] = {
    "dask": _open_dask,
    "spark": _open_spark,
}
_CHECK_FILES = "Check that all workers can open this path and that every file there is a complete Parquet file."
# Where files are read, the default first.
BACKENDS = ("local", *_OPENERS)

from __future__ import annotations

import http.server
import io
import threading
import zipfile

import pandas as pd
import pytest

from helpers.paper_files import DATA, FILES, needs_files
from truewood import datasets
from truewood._paper.data import draw_rna

pytestmark = pytest.mark.any_engine


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """No folder given, and an empty cache."""
    monkeypatch.delenv(datasets.DATA_VARIABLE, raising=False)
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@needs_files
def test_rna():
    X, y = datasets.load_rna()
    assert X.shape == (876, 44)
    assert y.sum() == 437
    assert draw_rna(None).encode()[0].shape == (876, 167)


@needs_files
def test_adult():
    X, y = datasets.load_adult()
    assert X.shape == (27504, 13)
    assert 0.2 < y.mean() < 0.3
    levels = {"workclass": 7, "education": 16, "marital-status": 7, "occupation": 14, "relationship": 6, "race": 5}
    assert {name: X[name].nunique() for name in levels} == levels


@needs_files
def test_boston():
    X, y = datasets.load_boston()
    assert X.shape == (506, 13)
    assert y.iloc[0] == 24.0


@needs_files
def test_boston_as_first_published(cache):
    table = pd.read_csv(DATA / FILES[2], skiprows=1)
    lines = ["The Boston house-price data", ""]
    for row in table.itertuples(index=False):
        lines += [" " + "  ".join(map(str, row[:11])), "  " + "  ".join(map(str, row[11:]))]
    cache.mkdir()
    (cache / FILES[2]).write_text("\n".join(lines))
    X, prices = datasets.load_boston()
    assert X.to_numpy().tolist() == table.drop(columns="MEDV").to_numpy().tolist()
    assert prices.tolist() == table["MEDV"].tolist()


@needs_files
def test_download_from_loopback(cache, monkeypatch, tmp_path):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.write(DATA / "adult.data", "adult.data")
    content = {"/adult.zip": archive.getvalue(), "/rna": (DATA / FILES[0]).read_bytes(), "/cut": b"half a file"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content[self.path]) * (2 if self.path == "/cut" else 1)))
            self.end_headers()
            self.wfile.write(content[self.path])

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(datasets, "_ADDRESSES", {"adult.data": f"{here}/adult.zip", FILES[0]: f"{here}/rna"})
    try:
        assert datasets.load_adult()[0].shape == (27504, 13)
        assert datasets.load_rna()[0].shape == (876, 44)
        for broken in ("/cut", "/adult.zip"):  # cut off, and not a text
            monkeypatch.setattr(datasets, "_ADDRESSES", {FILES[2]: here + broken})
            with pytest.raises((OSError, ValueError), match=r"boston_house_prices.csv"):
                datasets.load_boston()
    finally:
        server.shutdown()
        server.server_close()
    assert sorted(path.name for path in cache.iterdir()) == ["adult.data", FILES[0]]
    datasets.load_adult()  # from the cache: the server is gone


def test_without_a_network_the_error_suggests_what_to_do(cache, monkeypatch):
    monkeypatch.setattr(datasets, "_ADDRESSES", dict.fromkeys(FILES, "http://127.0.0.1:9/data"))
    with pytest.raises(OSError, match=r"boston_house_prices.csv.*http://127.0.0.1:9/data"):
        datasets.load_boston()
    monkeypatch.setattr(datasets, "_ADDRESSES", {"adult.data": "http://127.0.0.1:9/data.zip"})
    with pytest.raises(OSError, match=r"http://127.0.0.1:9/data.zip, extract adult.data"):
        datasets.load_adult()


@pytest.mark.parametrize("load", [datasets.load_rna, datasets.load_adult, datasets.load_boston])
@pytest.mark.parametrize(
    "content", [b"", b"<html>sign in</html>", b"edit loc a\n+ 1 2\n", b"506,13\na,b\n1,2\n", b"\xff\xfe"]
)
def test_other_content_is_refused(load, content, monkeypatch, tmp_path):
    monkeypatch.setenv(datasets.DATA_VARIABLE, str(tmp_path))
    for name in FILES:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{tmp_path}.*content"):
        load()

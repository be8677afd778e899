"""Learned sparse models: equal to sentence-transformers, from random weights and from MiniLM."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sparse_models import inference_free, masked_model, splade

from ragwright.core import ConfigError
from ragwright.index import read_sparse
from ragwright.models import EmbedOptions, Encoder, Models, export_sparse_onnx, open_sparse_encoder

pytestmark = pytest.mark.slow

QUERIES = ["how hot is the oil", "which code", "brake fluid change"]
PASSAGES = ["the brake fluid is changed on two years", "oil of the pump", "cold valve seal", "code"]


@pytest.fixture(scope="module")
def folders(needs_torch: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two small models with random weights."""
    home = tmp_path_factory.mktemp("sparse")
    masked = masked_model(home / "masked")
    return {
        "masked": masked,
        "splade": splade(masked, home / "splade"),
        "cosine": splade(masked, home / "cosine", similarity_fn_name="cosine"),
        "free": inference_free(masked, home / "free"),
    }


def opened(folder: Path) -> Encoder:
    return open_sparse_encoder(str(folder), EmbedOptions())


def products(encoder: Encoder, queries: Sequence[str], passages: Sequence[str]) -> Any:
    """Scores of passages by queries, one row per query."""
    sides = [encoder.encode_batch(queries, "query"), encoder.encode_batch(passages, "passage")]
    dense = [[_dense(encoding) for encoding in side] for side in sides]
    return np.array([[float(np.dot(q, p)) for p in dense[1]] for q in dense[0]])


def _dense(encoding: bytes) -> Any:
    terms, weights = read_sparse(encoding)
    assert (np.diff(terms.astype(np.int64)) > 0).all()
    row = np.zeros(40_000)
    row[terms] = weights
    return row


def similarities(folder: Path, queries: Sequence[str], passages: Sequence[str]) -> Any:
    """The same by sentence-transformers."""
    from sentence_transformers import SparseEncoder

    model = SparseEncoder(str(folder), device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls sparse tensors a beta
        texts = model.encode_query(list(queries)), model.encode_document(list(passages))
        return model.similarity(*texts).numpy()


@pytest.mark.parametrize("kind", ["splade", "cosine", "free", "masked"])
def test_scores_are_those_of_the_library(folders: dict[str, Path], kind: str) -> None:
    scores = products(opened(folders[kind]), QUERIES, PASSAGES)
    expected = similarities(folders[kind], QUERIES, PASSAGES)
    assert scores == pytest.approx(expected, abs=1e-5, rel=1e-6)
    assert np.ptp(scores) > 0.01


def test_a_query_of_an_inference_free_model_loads_no_torch(folders: dict[str, Path]) -> None:
    code = (
        "import sys; from ragwright.models import EmbedOptions, open_sparse_encoder\n"
        f"encoder = open_sparse_encoder({str(folders['free'])!r}, EmbedOptions())\n"
        "assert encoder.instant and len(encoder.encode_batch(['brake fluid'], 'query')[0]) == 16\n"
        "print({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    assert not opened(folders["splade"]).instant


def test_a_long_text_has_the_greatest_weights_of_its_windows(folders: dict[str, Path]) -> None:
    encoder = opened(folders["splade"])
    # 61 tokens fit; 80 are cut into two windows of 40.
    words = ["pump"] * 40 + ["valve"] * 40
    long, first, second = encoder.encode_batch(
        [" ".join(words), " ".join(words[:40]), " ".join(words[40:])], "passage"
    )
    assert _dense(long) == pytest.approx(np.maximum(_dense(first), _dense(second)), abs=1e-6)


@pytest.mark.parametrize("kind", ["splade", "free"])
def test_an_exported_model_gives_the_same_scores(
    folders: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    exported = opened(export_sparse_onnx(folders[kind], tmp_path / "onnx"))
    scores = products(exported, QUERIES, PASSAGES)
    assert scores == pytest.approx(similarities(folders[kind], QUERIES, PASSAGES), abs=1e-3)
    assert exported.instant == (kind == "free")
    assert exported.identity != opened(folders[kind]).identity


@pytest.fixture(scope="module")
def masked_minilm(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return masked_model(tmp_path_factory.mktemp("minilm") / "masked", minilm)


@pytest.mark.parametrize("kind", ["splade", "free"])
def test_a_model_built_from_minilm_gives_the_scores_of_the_library(
    masked_minilm: Path, tmp_path: Path, kind: str
) -> None:
    build = splade if kind == "splade" else inference_free
    folder = build(masked_minilm, tmp_path / kind)
    queries = ["How often must brake fluid be changed?", "error C2065"]
    passages = ["Brake fluid is changed every two years.", "C2065 means undeclared identifier."]
    encoder = opened(folder)
    expected = similarities(folder, queries, passages)
    assert products(encoder, queries, passages) == pytest.approx(expected, abs=1e-5, rel=1e-6)
    exported = opened(export_sparse_onnx(folder, tmp_path / "onnx"))
    assert products(exported, queries, passages) == pytest.approx(expected, abs=1e-3, rel=1e-5)


def test_an_embedding_model_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    dense = tmp_path / "dense"
    dense.mkdir()
    (dense / "model.safetensors").write_bytes(b"0")
    layers = ["transformer.Transformer", "pooling.Pooling"]
    modules = [{"path": "", "type": f"sentence_transformers.modules.{name}"} for name in layers]
    (dense / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ConfigError, match="embedding model") as caught:
        opened(dense)
    assert "embed.model" in str(caught.value.hint)
    (dense / "modules.json").unlink()
    (dense / "config.json").write_text(json.dumps({"architectures": ["BertModel"]}))
    with pytest.raises(ConfigError, match="BertModel, which has no trained head"):
        opened(dense)


def test_what_is_no_sparse_model_is_refused_with_what_to_do(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no weights"):
        opened(_without_weights(folders["splade"], tmp_path / "bare"))
    with pytest.raises(ConfigError, match=r"no model\.safetensors"):
        opened(_without_weights(folders["free"], tmp_path / "half", "query_*"))
    models = Models(root=tmp_path)
    with pytest.raises(ConfigError, match="not a model for the channel 'sparse'"):
        models.encoders.encoder("sparse", "openai:text-embedding-3-small")


def _without_weights(source: Path, folder: Path, layers: str = "**") -> Path:
    shutil.copytree(source, folder)
    for file in [*folder.glob(f"{layers}/*.safetensors")]:
        file.unlink()
    return folder

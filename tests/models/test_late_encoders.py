"""Late-interaction models, held to MultiVectorEncoder of sentence-transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from late_models import as_pylate_writes_it, late_model, small_bert

from ragwright.core import ConfigError, ModelReplyError
from ragwright.models import (
    EmbedOptions,
    LateModel,
    PlacedTokens,
    SentenceTransformerEmbedder,
    TokenVectors,
    export_onnx,
    open_late,
    passage_form,
    query_form,
    read_passage,
    read_placed,
    read_query,
)

QUERIES = ["how hot is the oil?", "change brake fluid", "a"]
PASSAGES = ["The pump is hot, change the oil.", "valve", "", "Code LNK-2019: seal on the pump."]

SHAPES: dict[str, dict[str, Any]] = {
    "expanded to a fixed length": {
        "document_length": 24,
        "query_expansion": {"strategy": "fixed", "length": 16},
    },
    "expanded and attended to": {
        "query_expansion": {"strategy": "min", "length": 8, "attend": True, "token": "[SEP]"},
    },
    "plain, mean over the query": {"query_length": 20, "similarity": "meanmaxsim"},
}


@pytest.fixture(scope="session")
def bert(needs_torch: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained BERT."""
    return small_bert(tmp_path_factory.mktemp("late") / "bert")


@pytest.fixture(scope="session", params=list(SHAPES))
def folder(
    request: pytest.FixtureRequest, bert: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A late-interaction model of each shape."""
    return late_model(bert, tmp_path_factory.mktemp("late") / "model", **SHAPES[request.param])


def opened(folder: Path) -> LateModel:
    model = open_late(str(folder), EmbedOptions())
    assert isinstance(model, LateModel)
    return model


def max_sim(model: LateModel, queries: Sequence[str], passages: Sequence[str]) -> Any:
    """MaxSim from the vectors of our model, computed naively."""
    asked = [model.embed_tokens(query, "query").vectors for query in queries]
    given = [model.embed_tokens(passage, "passage").vectors for passage in passages]
    return np.array([[(q @ p.T).max(axis=1).sum() for p in given] for q in asked])


def theirs(folder: Path, queries: Sequence[str], passages: Sequence[str]) -> Any:
    """The same by the library."""
    from sentence_transformers import MultiVectorEncoder

    model = MultiVectorEncoder(str(folder), device="cpu")
    return model.similarity(
        model.encode_query(list(queries)), model.encode_document(list(passages))
    ).numpy()


@pytest.mark.slow
def test_scores_are_those_of_the_library(folder: Path) -> None:
    ours = max_sim(opened(folder), QUERIES, PASSAGES)
    assert np.ptp(ours) > 0.05
    assert np.abs(ours - theirs(folder, QUERIES, PASSAGES)).max() < 1e-5


@pytest.mark.slow
def test_an_export_scores_as_the_model_and_needs_no_weights_of_torch(
    folder: Path, tmp_path: Path
) -> None:
    exported = opened(export_onnx(folder, tmp_path / "onnx"))
    assert type(exported).__name__ == "OnnxLate"
    assert not list((tmp_path / "onnx").rglob("*.safetensors"))
    difference = max_sim(exported, QUERIES, PASSAGES) - max_sim(opened(folder), QUERIES, PASSAGES)
    assert np.abs(difference).max() < 1e-3
    for role in ("query", "passage"):
        spans = exported.embed_tokens("the hot pump.", role).spans
        assert np.array_equal(spans, opened(folder).embed_tokens("the hot pump.", role).spans)


@pytest.mark.slow
def test_a_folder_of_pylate_is_opened_as_the_library_opens_it(bert: Path, tmp_path: Path) -> None:
    folder = late_model(bert, tmp_path / "model")
    as_pylate_writes_it(folder)
    ours = max_sim(opened(folder), QUERIES, PASSAGES)
    assert np.abs(ours - theirs(folder, QUERIES, PASSAGES)).max() < 1e-5
    exported = opened(export_onnx(folder, tmp_path / "onnx"))
    assert np.abs(ours - max_sim(exported, QUERIES, PASSAGES)).max() < 1e-3


@pytest.mark.slow
def test_a_model_made_from_minilm_scores_as_the_library_and_as_its_export(
    minilm: Path, tmp_path: Path, real_texts: list[str]
) -> None:
    folder = late_model(minilm, tmp_path / "model", 128, document_length=300)
    queries, passages = ["which seal of the pump leaks?", "brake fluid"], real_texts[:7]
    ours = max_sim(opened(folder), queries, passages)
    assert np.abs(ours - theirs(folder, queries, passages)).max() < 1e-5
    exported = opened(export_onnx(folder, tmp_path / "onnx"))
    assert np.abs(ours - max_sim(exported, queries, passages)).max() < 1e-3


@pytest.mark.slow
def test_a_text_longer_than_the_model_is_read_in_pieces_and_nothing_is_left_out(
    bert: Path, tmp_path: Path
) -> None:
    model = opened(late_model(bert, tmp_path / "model", document_length=24))
    text = " ".join(f"pump {number} hot" for number in range(30))
    tokens = model.embed_tokens(text, "passage")
    words = [text[start:end] for start, end in tokens.spans.tolist() if start < end]
    assert "".join(words) == text.replace(" ", "")
    short = model.embed_tokens("pump 0 hot", "passage")
    assert len(tokens.vectors) > 5 * len(short.vectors)


@pytest.mark.slow
def test_places_are_those_of_the_words_and_special_tokens_have_none(
    bert: Path, tmp_path: Path
) -> None:
    model = opened(late_model(bert, tmp_path / "model"))
    text = "Pump, valve."
    [form] = PlacedTokens(model).encode_batch([text], "passage")
    tokens = read_placed(form)
    words = [text[start:end] for start, end in tokens.spans.tolist()]
    assert words == ["", "", "Pump", "valve", ""]  # [CLS], the prompt, and [SEP]
    assert np.array_equal(tokens.vectors, model.embed_tokens(text, "passage").vectors)


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"config_sentence_transformers.json": {}, "modules.json": []}, "an embedding model"),
        (
            {"config_sentence_transformers.json": {"model_type": "SparseEncoder"}},
            "a learned sparse model",
        ),
        ({"config.json": {"architectures": ["BertModel"]}}, "without late-interaction layers"),
    ],
)
def test_a_model_of_another_kind_is_refused_before_it_is_opened(
    tmp_path: Path, files: dict[str, Any], what: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content), "utf-8")
    with pytest.raises(ConfigError, match=f"not a late-interaction model.*{what}") as caught:
        opened(tmp_path)
    assert "embed.model" in str(caught.value.hint)


def test_a_late_interaction_model_is_no_embedding_model(tmp_path: Path) -> None:
    settings = {"model_type": "MultiVectorEncoder"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings), "utf-8")
    with pytest.raises(ConfigError, match="a vector per token") as caught:
        SentenceTransformerEmbedder(tmp_path)
    assert "late.model" in str(caught.value.hint)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such model folder") as caught:
        opened(tmp_path / "absent")
    assert str(tmp_path / "absent") in str(caught.value.where)


def test_the_8_bit_form_keeps_every_number_within_half_a_step() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((50, 32)).astype(np.float32)
    vectors[7] = 0
    tokens = TokenVectors(vectors, np.zeros((50, 2), np.int32))
    scales, numbers = read_passage(passage_form(tokens))
    steps = np.abs(vectors).max(axis=1) / 127
    assert numbers.dtype == np.int8
    assert (np.abs(scales[:, None] * numbers - vectors) <= steps[:, None] * 0.501).all()
    assert np.array_equal(read_query(query_form(tokens)), vectors)


def test_a_passage_without_vectors_has_a_form() -> None:
    none = TokenVectors(np.zeros((0, 16), np.float32), np.zeros((0, 2), np.int32))
    scales, numbers = read_passage(passage_form(none))
    assert (scales.shape, numbers.shape) == ((0,), (0, 16))


@pytest.mark.parametrize("form", [b"", b"\x02\0\0\0abc"])
def test_bytes_of_another_form_are_refused(form: bytes) -> None:
    for read in (read_query, read_passage, read_placed):
        with pytest.raises(ModelReplyError, match="bytes are not the vectors"):
            read(form)

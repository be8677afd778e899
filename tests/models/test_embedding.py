"""Local embedders on a real model: ONNX, sentence-transformers, windows, prefixes, identity."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import ConfigError, ModelRefusedError, RagwrightError, Span
from ragwright.models import (
    Embedder,
    EmbedOptions,
    HFTokenizer,
    Matrix,
    Models,
    OnnxEmbedder,
    SentenceTransformerEmbedder,
    Tokenizer,
    embed_texts,
)
from ragwright.testing import EmbedderSuite

pytestmark = pytest.mark.slow  # torch and a real model


@pytest.fixture(scope="module")
def onnx(minilm_onnx: Path) -> OnnxEmbedder:
    return OnnxEmbedder(minilm_onnx)


@pytest.fixture(scope="module")
def torch_model(minilm: Path) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(minilm)


@pytest.fixture
def folder(minilm_onnx: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(minilm_onnx, tmp_path / "model"))


def change(path: Path, name: str, value: object) -> None:
    config = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**config, name: value}))


class TestOnnxConforms(EmbedderSuite):
    @pytest.fixture(autouse=True)
    def _open(self, onnx: OnnxEmbedder) -> None:
        self._embedder: Embedder = onnx

    def make(self) -> Embedder:
        return self._embedder


class TestSentenceTransformersConforms(EmbedderSuite):
    @pytest.fixture(autouse=True)
    def _open(self, torch_model: SentenceTransformerEmbedder) -> None:
        self._embedder = torch_model

    def make(self) -> Embedder:
        return self._embedder


def test_every_way_to_the_vectors_agrees(
    onnx: OnnxEmbedder,
    torch_model: SentenceTransformerEmbedder,
    minilm: Path,
    minilm_onnx: Path,
    real_texts: list[str],
) -> None:
    import sentence_transformers as st

    ours = onnx.embed_batch(real_texts)
    theirs = st.SentenceTransformer(str(minilm), device="cpu").encode(
        real_texts, normalize_embeddings=True, show_progress_bar=False
    )
    for other in (theirs, torch_model.embed_batch(real_texts)):
        assert float(np.abs(ours - other).max()) < 1e-5
    assert (onnx.dimensions, onnx.window) == (torch_model.dimensions, torch_model.window)
    for again in (OnnxEmbedder(minilm_onnx, EmbedOptions(threads=3)), OnnxEmbedder(minilm_onnx)):
        assert again.embed_batch(real_texts).tobytes() == ours.tobytes()
        assert again.identity == onnx.identity
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-6)
    raw = OnnxEmbedder(minilm_onnx, EmbedOptions(similarity="dot")).embed_batch(real_texts)
    assert not np.allclose(np.linalg.norm(raw, axis=1), 1, atol=1e-2)
    short = OnnxEmbedder(minilm_onnx, EmbedOptions(dimensions=64))
    head = ours[:, :64] / np.linalg.norm(ours[:, :64], axis=1, keepdims=True)
    assert short.dimensions == 64
    assert np.allclose(short.embed_batch(real_texts), head, atol=1e-6)


@pytest.mark.parametrize("pooling", ["cls", "max", "mean", "last"])
def test_poolings_are_those_of_the_package(pooling: str, minilm: Path, minilm_onnx: Path) -> None:
    options = EmbedOptions(pooling=pooling)  # type: ignore[arg-type]
    text = ["Pooling makes one vector of many."]
    ours = OnnxEmbedder(minilm_onnx, options).embed_batch(text)
    theirs = SentenceTransformerEmbedder(minilm, options).embed_batch(text)
    assert float(np.abs(ours - theirs).max()) < 1e-5


# -- what a folder says --------------------------------------------------------------------


def test_all_that_decides_a_vector_is_in_the_identity(onnx: OnnxEmbedder, folder: Path) -> None:
    options = (
        EmbedOptions(query_prefix="query: "),
        EmbedOptions(passage_prefix="passage: "),
        EmbedOptions(pooling="cls"),
        EmbedOptions(similarity="dot"),
        EmbedOptions(dimensions=64),
    )
    assert OnnxEmbedder(folder).identity == onnx.identity, "the place of a model is not the model"
    found = {onnx.identity, *(OnnxEmbedder(folder, one).identity for one in options)}
    assert len(found) == 6
    normalizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))["normalizer"]
    change(folder / "tokenizer.json", "normalizer", {**normalizer, "lowercase": False})
    prompts = {"query": "ask: ", "document": "doc: "}
    change(folder / "config_sentence_transformers.json", "prompts", prompts)
    own = OnnxEmbedder(folder)
    assert own.identity not in found
    assert (own.rule.query_prefix, own.rule.passage_prefix) == ("ask: ", "doc: ")
    given = EmbedOptions(query_prefix="", passage_prefix="p: ", similarity="dot")
    rule = OnnxEmbedder(folder, given).rule
    assert (rule.query_prefix, rule.passage_prefix, rule.similarity) == ("", "p: ", "dot")


def test_wrong_folders_are_told_apart(tmp_path: Path, minilm: Path, folder: Path) -> None:
    def refused(path: Path, words: str) -> str:
        with pytest.raises(ConfigError, match=words) as caught:
            OnnxEmbedder(path)
        return str(caught.value)

    refused(tmp_path / "nowhere", "no such model folder|no ONNX")
    assert "optimum-cli" in refused(minilm, "no ONNX")
    for name in "ab":
        (tmp_path / f"{name}.onnx").touch()
    refused(tmp_path, r"a\.onnx, b\.onnx")
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    dense = {"idx": 9, "name": "9", "path": "9_Dense", "type": "x.models.Dense"}
    (folder / "modules.json").write_text(json.dumps([*modules, dense]))
    refused(folder, "Dense")  # a layer that the file leaves out
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "model.onnx").write_bytes(b"not a model")
    refused(folder, "cannot be opened")


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence", ""),
        ("all-MiniLM-L6-v2", "", ""),
        ("BAAI/bge-m3", "", ""),
        ("base5-x", "", ""),
    ],
)
def test_known_families_alone_bring_their_prefixes(name: str, query: str, passage: str) -> None:
    found = Models().vector_rule(f"ollama:{name}")
    assert found.query_prefix.startswith(query)
    assert bool(found.query_prefix) is bool(query)
    assert found.passage_prefix == passage


# -- long texts ----------------------------------------------------------------------------


def test_a_text_longer_than_the_window_is_the_mean_of_its_windows_or_refused(
    onnx: OnnxEmbedder, torch_model: SentenceTransformerEmbedder
) -> None:
    for embedder in (onnx, torch_model):
        with pytest.raises(ModelRefusedError, match="400 tokens"):
            embedder.embed_batch(["word " * 400])
    assert onnx.window is not None
    fits, first, second = (" ".join([w] * onnx.window) for w in ("word", "water", "finance"))
    (whole, long) = embed_texts(onnx, [[fits], [f"{first} {second}"]])
    assert isinstance(whole, np.ndarray)
    assert whole.tobytes() == onnx.embed_batch([fits]).tobytes()
    assert isinstance(long, np.ndarray)
    mean = onnx.embed_batch([first + " ", second]).mean(axis=0)
    assert np.allclose(long[0], mean / np.linalg.norm(mean), atol=1e-6)
    good, bad = embed_texts(onnx, [["short"], ["word " * 700]], long_texts="refuse")
    assert isinstance(good, np.ndarray)
    assert isinstance(bad, RagwrightError)
    assert "700 tokens" in bad.what


class Recorder(Embedder):
    """An embedder of ten lines, with words as tokens and a window of five."""

    identity = "recorder"
    dimensions = 1
    window = 5

    def __init__(self) -> None:
        self.seen: list[str] = []

    def embed_batch(self, texts: Sequence[str]) -> Matrix:
        self.seen += texts
        return np.array([[len(t.split())] for t in texts], np.float32)

    def tokenizer(self) -> Tokenizer:
        return Words()


class Words(Tokenizer):
    def spans(self, text: str) -> list[Span]:
        spans, place = [], 0
        for word in text.split():
            start = text.index(word, place)
            place = start + len(word)
            spans.append(Span(start, place))
        return spans


def test_prefixes_count_against_the_window_and_stand_before_every_piece() -> None:
    recorder, text = Recorder(), "aaaa bbbb cccc dddd eeee ffff"
    embed_texts(recorder, [[text]], "query: ")
    assert len(recorder.seen) == 2
    assert all(t.startswith("query: ") and len(t.split()) <= 5 for t in recorder.seen)
    assert " ".join(t.removeprefix("query: ").strip() for t in recorder.seen) == text
    [error] = embed_texts(Recorder(), [["text"]], "one two three four five ")
    assert isinstance(error, ModelRefusedError)
    assert "prefix" in error.what


def test_many_requests_are_one_batch_and_keep_their_order() -> None:
    recorder = Recorder()
    found = embed_texts(recorder, [["a b", "a"], [], ["a b c"]], normalise=False)
    shapes = [f.shape for f in found if isinstance(f, np.ndarray)]
    assert shapes == [(2, 1), (0, 1), (1, 1)]
    assert recorder.seen == ["a b", "a", "a b c"]


# -- tokens --------------------------------------------------------------------------------


def test_the_tokenizer_gives_spans_of_the_text_and_does_not_truncate(minilm: Path) -> None:
    text = "Änderung: das Café schließt um 22:30 Uhr 🙂 — naïve «test»."
    tokenizer = HFTokenizer(minilm)
    pieces = [text[span.start : span.end] for span in tokenizer.spans(text)]
    assert "Café" in pieces
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert tokenizer.count("word " * 3000) == 3000


def test_tokens_of_bytes_and_of_pieces_give_character_spans_and_marks() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    raw.train_from_iterator(["the cat sat on the mat"] * 5, trainer)
    text = "the café 🙂 mat"
    spans = HFTokenizer(raw).spans(text)
    assert all(0 <= s.start < s.end <= len(text) for s in spans)
    covered = {i for s in spans for i in range(s.start, s.end)}
    assert covered >= {i for i, c in enumerate(text) if not c.isspace()}
    vocabulary = {"[UNK]": 0, "app": 1, "##lied": 2, "_": 3, "w": 4, "##30": 5, "##4": 6}
    raw = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces = ["app", "_", "w", "##30", "##4", "app", "##lied"]
    assert HFTokenizer(raw).pieces("app_w304 applied") == pieces

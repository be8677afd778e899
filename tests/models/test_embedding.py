"""Local embedders on a real model: ONNX, sentence-transformers, windows, prefixes, identity."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import ConfigError, MissingExtraError, ModelRefusedError, RagwrightError, Span
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


class TestOnnxConforms(EmbedderSuite):
    @pytest.fixture(autouse=True)
    def _open(self, onnx: OnnxEmbedder) -> None:
        self._embedder = onnx

    def make(self) -> Embedder:
        return self._embedder


class TestSentenceTransformersConforms(EmbedderSuite):
    @pytest.fixture(autouse=True)
    def _open(self, torch_model: SentenceTransformerEmbedder) -> None:
        self._embedder = torch_model

    def make(self) -> Embedder:
        return self._embedder


def test_onnx_and_sentence_transformers_agree(
    onnx: OnnxEmbedder, torch_model: SentenceTransformerEmbedder, real_texts: list[str]
) -> None:
    difference = np.abs(onnx.embed_batch(real_texts) - torch_model.embed_batch(real_texts))
    assert float(difference.max()) < 1e-5
    assert onnx.dimensions == torch_model.dimensions
    assert onnx.window == torch_model.window


def test_the_package_s_own_encode_agrees(minilm: Path, real_texts: list[str]) -> None:
    import sentence_transformers as st

    theirs = st.SentenceTransformer(str(minilm), device="cpu").encode(
        real_texts, normalize_embeddings=True, show_progress_bar=False
    )
    ours = SentenceTransformerEmbedder(minilm).embed_batch(real_texts)
    assert float(np.abs(theirs - ours).max()) < 1e-5


def test_vectors_do_not_depend_on_the_number_of_threads(
    onnx: OnnxEmbedder, minilm_onnx: Path, real_texts: list[str]
) -> None:
    several = OnnxEmbedder(minilm_onnx, EmbedOptions(threads=3))
    assert several.embed_batch(real_texts).tobytes() == onnx.embed_batch(real_texts).tobytes()
    assert several.identity == onnx.identity


def test_opening_twice_gives_the_same_bytes(
    onnx: OnnxEmbedder, minilm_onnx: Path, real_texts: list[str]
) -> None:
    again = OnnxEmbedder(minilm_onnx)
    assert again.embed_batch(real_texts).tobytes() == onnx.embed_batch(real_texts).tobytes()


@pytest.mark.parametrize(
    "options",
    [
        EmbedOptions(query_prefix="query: "),
        EmbedOptions(passage_prefix="passage: "),
        EmbedOptions(pooling="cls"),
        EmbedOptions(similarity="dot"),
        EmbedOptions(dimensions=64),
    ],
    ids=["query", "passage", "pooling", "similarity", "dimensions"],
)
def test_all_that_decides_a_vector_is_in_the_identity(
    options: EmbedOptions, onnx: OnnxEmbedder, minilm_onnx: Path
) -> None:
    assert OnnxEmbedder(minilm_onnx, options).identity != onnx.identity


def test_other_weights_are_another_identity(
    onnx: OnnxEmbedder, minilm_onnx: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(minilm_onnx, copy)
    assert OnnxEmbedder(copy).identity == onnx.identity, "the place of a model is not the model"
    config = copy / "tokenizer.json"
    config.write_text(config.read_text("utf-8").replace('"lowercase":true', '"lowercase": true'))
    data = json.loads(config.read_text("utf-8"))
    data["normalizer"]["lowercase"] = False
    config.write_text(json.dumps(data))
    assert OnnxEmbedder(copy).identity != onnx.identity


def test_options_win_over_files(minilm_onnx: Path) -> None:
    options = EmbedOptions(query_prefix="", passage_prefix="p: ", similarity="dot")
    found = OnnxEmbedder(minilm_onnx, options)
    assert found.rule.query_prefix == ""
    assert found.rule.passage_prefix == "p: "
    assert found.rule.similarity == "dot"


def test_cosine_vectors_have_length_one_and_dot_ones_their_own(
    onnx: OnnxEmbedder, minilm_onnx: Path, real_texts: list[str]
) -> None:
    raw = OnnxEmbedder(minilm_onnx, EmbedOptions(similarity="dot")).embed_batch(real_texts)
    assert np.allclose(np.linalg.norm(onnx.embed_batch(real_texts), axis=1), 1, atol=1e-6)
    assert not np.allclose(np.linalg.norm(raw, axis=1), 1, atol=1e-2)


def test_cut_dimensions_are_the_first_ones_at_length_one(
    onnx: OnnxEmbedder, minilm_onnx: Path, real_texts: list[str]
) -> None:
    short = OnnxEmbedder(minilm_onnx, EmbedOptions(dimensions=64))
    head = onnx.embed_batch(real_texts)[:, :64]
    head /= np.linalg.norm(head, axis=1, keepdims=True)
    assert short.dimensions == 64
    assert np.allclose(short.embed_batch(real_texts), head, atol=1e-6)


@pytest.mark.parametrize("pooling", ["cls", "max", "mean", "last"])
def test_poolings_agree_with_sentence_transformers(
    pooling: str, minilm: Path, minilm_onnx: Path
) -> None:
    options = EmbedOptions(pooling=pooling)  # type: ignore[arg-type]
    text = ["Pooling makes one vector of many."]
    ours = OnnxEmbedder(minilm_onnx, options).embed_batch(text)
    theirs = SentenceTransformerEmbedder(minilm, options).embed_batch(text)
    assert float(np.abs(ours - theirs).max()) < 1e-5


def test_the_tokenizer_gives_spans_of_the_original_text(minilm: Path) -> None:
    text = "Änderung: das Café schließt um 22:30 Uhr 🙂 — naïve «test»."
    tokenizer = HFTokenizer(minilm)
    pieces = [text[span.start : span.end] for span in tokenizer.spans(text)]
    assert "Café" in pieces
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


def test_the_tokenizer_does_not_truncate(minilm: Path) -> None:
    assert HFTokenizer(minilm).count("word " * 3000) == 3000


def test_a_text_longer_than_the_window_is_refused_by_the_bare_embedder(
    onnx: OnnxEmbedder, torch_model: SentenceTransformerEmbedder
) -> None:
    for embedder in (onnx, torch_model):
        with pytest.raises(ModelRefusedError, match="400 tokens"):
            embedder.embed_batch(["word " * 400])


def test_a_text_that_just_fits_is_not_pooled(onnx: OnnxEmbedder) -> None:
    assert onnx.window is not None
    text = " ".join(["word"] * onnx.window)
    (pooled,) = embed_texts(onnx, [[text]])
    assert isinstance(pooled, np.ndarray)
    assert pooled.tobytes() == onnx.embed_batch([text]).tobytes()


def test_a_long_text_is_the_mean_of_its_windows(onnx: OnnxEmbedder) -> None:
    assert onnx.window is not None
    half = onnx.window
    first = " ".join(["water"] * half)
    second = " ".join(["finance"] * half)
    (pooled,) = embed_texts(onnx, [[f"{first} {second}"]])
    assert isinstance(pooled, np.ndarray)
    parts = onnx.embed_batch([first + " ", second])
    mean = parts.mean(axis=0)
    assert np.allclose(pooled[0], mean / np.linalg.norm(mean), atol=1e-6)


def test_a_long_text_can_be_refused_with_its_count_and_spares_the_others(
    onnx: OnnxEmbedder,
) -> None:
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
    recorder = Recorder()
    embed_texts(recorder, [["aaaa bbbb cccc dddd eeee ffff"]], "query: ")
    assert len(recorder.seen) == 2
    assert all(t.startswith("query: ") and len(t.split()) <= 5 for t in recorder.seen)
    assert " ".join(t.removeprefix("query: ").strip() for t in recorder.seen) == (
        "aaaa bbbb cccc dddd eeee ffff"
    )


def test_a_prefix_that_fills_the_window_is_an_error() -> None:
    [error] = embed_texts(Recorder(), [["text"]], "one two three four five ")
    assert isinstance(error, ModelRefusedError)
    assert "prefix" in error.what


def test_many_requests_are_one_batch_and_keep_their_order() -> None:
    recorder = Recorder()
    found = embed_texts(recorder, [["a b", "a"], [], ["a b c"]], normalise=False)
    shapes = [f.shape for f in found if isinstance(f, np.ndarray)]
    assert shapes == [(2, 1), (0, 1), (1, 1)]
    assert recorder.seen == ["a b", "a", "a b c"]


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("multilingual-e5-small", "query: ", "passage: "),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence", ""),
    ],
)
def test_known_families_bring_their_prefixes(name: str, query: str, passage: str) -> None:
    found = Models().vector_rule(f"ollama:{name}")
    assert found.query_prefix.startswith(query)
    assert found.passage_prefix == passage


@pytest.mark.parametrize(
    "name",
    [
        "all-MiniLM-L6-v2",
        "thenlper/gte-base",
        "BAAI/bge-m3",
        "all-mpnet-base-v2",
        "base5-x",
        "text-embedding-3-small",
        "avsolatorio/GIST-Embedding-v0",
    ],
)
def test_other_names_bring_none(name: str) -> None:
    found = Models().vector_rule(f"ollama:{name}")
    assert not found.query_prefix
    assert not found.passage_prefix


def test_a_model_s_own_prompts_are_read_from_its_folder(minilm_onnx: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(minilm_onnx, copy)
    path = copy / "config_sentence_transformers.json"
    config = json.loads(path.read_text("utf-8"))
    config["prompts"] = {"query": "ask: ", "document": "doc: "}
    path.write_text(json.dumps(config))
    assert OnnxEmbedder(copy).rule.query_prefix == "ask: "
    assert OnnxEmbedder(copy).rule.passage_prefix == "doc: "


def test_wrong_folders_are_told_apart(tmp_path: Path, minilm: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such model folder|no ONNX"):
        OnnxEmbedder(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="no ONNX") as caught:
        OnnxEmbedder(minilm)
    assert "optimum-cli" in str(caught.value)
    (tmp_path / "a.onnx").touch()
    (tmp_path / "b.onnx").touch()
    with pytest.raises(ConfigError, match=r"a\.onnx, b\.onnx"):
        OnnxEmbedder(tmp_path)


def test_a_damaged_onnx_file_is_told(minilm_onnx: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(minilm_onnx, copy)
    (copy / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(ConfigError, match="cannot be opened"):
        OnnxEmbedder(copy)


def test_layers_that_the_file_leaves_out_are_refused(minilm_onnx: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(minilm_onnx, copy)
    modules = json.loads((copy / "modules.json").read_text("utf-8"))
    modules.append({"idx": 9, "name": "9", "path": "9_Dense", "type": "x.models.Dense"})
    (copy / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ConfigError, match="Dense"):
        OnnxEmbedder(copy)


@pytest.mark.needs_torch
def test_an_unknown_name_is_no_long_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="no such model folder"):
        SentenceTransformerEmbedder("nobody/nothing-at-all")


def test_byte_level_tokens_give_character_spans() -> None:
    import tokenizers

    raw = tokenizers.Tokenizer(tokenizers.models.BPE())
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(["the cat sat on the mat"] * 5, trainer)
    text = "the café 🙂 mat"
    spans = HFTokenizer(raw).spans(text)
    assert all(0 <= s.start < s.end <= len(text) for s in spans)
    covered = {i for s in spans for i in range(s.start, s.end)}
    assert covered >= {i for i, c in enumerate(text) if not c.isspace()}


def test_a_token_within_a_word_is_shown_with_a_continuation_mark() -> None:
    import tokenizers

    vocabulary = {"[UNK]": 0, "app": 1, "##lied": 2, "_": 3, "w": 4, "##30": 5, "##4": 6}
    raw = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    assert HFTokenizer(raw).pieces("app_w304 applied") == [
        *("app", "_", "w", "##30", "##4"),
        *("app", "##lied"),
    ]


@pytest.mark.parametrize(
    ("module", "extra"),
    [("onnxruntime", "embed"), ("tokenizers", "embed"), ("sentence_transformers", "torch")],
)
def test_what_is_not_installed_is_told_with_the_line_to_install_it(
    module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    if module == "sentence_transformers":
        open_: Callable[[], object] = lambda: SentenceTransformerEmbedder("any")  # noqa: E731
    elif module == "onnxruntime":
        open_ = lambda: OnnxEmbedder(tmp_path)  # noqa: E731
    else:
        open_ = lambda: HFTokenizer(tmp_path)  # noqa: E731
    with pytest.raises(MissingExtraError) as caught:
        open_()
    assert f"ragwright[{extra}]" in str(caught.value)

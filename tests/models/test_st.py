"""Rerankers, by a server, a cross-encoder or without a model; what transformers opens shares."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from model_desk import desk
from onnx_folders import export_onnx

from ragwright.core import ConfigError, ModelRefusedError
from ragwright.flow import Runner, rerank
from ragwright.models import (
    CrossEncoderReranker,
    LexicalReranker,
    Models,
    Reranker,
    model_handlers,
)
from ragwright.testing import RerankerSuite

__all__ = ["desk"]

PASSAGES = ["it rains", "the red car", "a car"]


@pytest.fixture(scope="session")
def cross_encoder(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny cross-encoder with random weights and a real vocabulary: it ranks nothing well."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "cross"
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(
        num_hidden_layers=1,
        max_position_embeddings=64,
        num_labels=1,
        initializer_range=0.8,
        **sizes,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(minilm)
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_cross_encoder_scores_as_its_package_and_onnx(
    cross_encoder: Path, tmp_path: Path
) -> None:
    import sentence_transformers as st

    model, query = CrossEncoderReranker(cross_encoder), "what is red?"
    together = model.score(query, PASSAGES)
    assert together == [model.score(query, [p])[0] for p in PASSAGES]
    assert len(set(together)) == 3
    assert model.score("q", []) == []
    pairs = [(query, passage) for passage in PASSAGES]
    theirs = st.CrossEncoder(str(cross_encoder), device="cpu")
    assert np.allclose(together, theirs.predict(pairs, show_progress_bar=False))
    with Runner(model_handlers(Models())) as runner:
        reply = runner.run(rerank(f"st:{cross_encoder}", query, PASSAGES))
    assert reply.scores == tuple(together)
    assert reply.scale
    folder = export_onnx(cross_encoder, tmp_path / "onnx")
    assert not [*folder.glob("*.safetensors")]
    by_onnx, passages = Models().reranker(f"onnx:{folder}"), [*PASSAGES, "car " * 700]
    assert by_onnx.score(query, passages) == pytest.approx(model.score(query, passages), abs=1e-5)
    with pytest.raises(ModelRefusedError, match="fills the window"):
        by_onnx.score("car " * 700, PASSAGES)


@pytest.mark.slow
def test_a_long_passage_counts_as_its_best_window(cross_encoder: Path) -> None:
    model = CrossEncoderReranker(cross_encoder)
    assert model.window is not None
    room = model.window - 4  # "what is red?" is four tokens
    parts = [" ".join([word] * room) for word in ("water", "finance", "car")]
    (whole,) = model.score("what is red?", [" ".join(parts)])
    assert whole == pytest.approx(max(model.score("what is red?", parts)), abs=1e-6)
    with pytest.raises(ModelRefusedError, match="query"):
        model.score("why " * 200, ["x"])


@pytest.mark.slow
def test_an_embedding_model_is_no_cross_encoder(
    minilm: Path, minilm_onnx: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="no trained head"):
        CrossEncoderReranker(minilm)
    assert capfd.readouterr().err == ""
    with pytest.raises(ConfigError, match="one score per pair"):
        Models().reranker(f"onnx:{minilm_onnx}")


@pytest.mark.slow
def test_the_identity_is_that_of_the_files_and_opens_nothing(
    cross_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(cross_encoder, copy)
    with monkeypatch.context() as patched:
        patched.setattr(
            CrossEncoderReranker, "__init__", lambda *_: pytest.fail("opened for its identity")
        )
        found = Models(root=tmp_path).reranker_identity("st:elsewhere")
        assert found == Models().reranker_identity(f"st:{cross_encoder}")
        config = copy / "config.json"
        config.write_text(config.read_text("utf-8") + " ", "utf-8")
        assert Models(root=tmp_path).reranker_identity("st:elsewhere") != found
    assert CrossEncoderReranker(cross_encoder).identity == found


class TestLexicalConforms(RerankerSuite):
    pointwise = False  # rarity is that among the passages

    def make(self) -> Reranker:
        return LexicalReranker()


@pytest.mark.slow
class TestCrossEncoderConforms(RerankerSuite):
    semantic = False  # random weights
    query = "oil?"

    @pytest.fixture(autouse=True)
    def _open(self, cross_encoder: Path) -> None:
        self._model = CrossEncoderReranker(cross_encoder)

    def make(self) -> Reranker:
        return self._model


@pytest.mark.parametrize(
    ("file", "body"),
    [
        ("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "planted.Layer"}]),
        ("0_Router/router_config.json", {"types": {"a": "planted.Layer"}, "structure": {}}),
    ],
)
@pytest.mark.needs_torch
def test_a_folder_that_names_classes_of_its_own_is_refused_and_none_of_its_code_runs(
    tmp_path: Path, file: str, body: object
) -> None:
    hit = tmp_path / "HIT"
    (tmp_path / "model" / "0_Router").mkdir(parents=True)
    (tmp_path / "model" / "planted.py").write_text(f"open({str(hit)!r}, 'w').write('ran')\n")
    (tmp_path / "model" / file).write_text(json.dumps(body))
    with pytest.raises(ConfigError, match="code of its own"):
        Models(root=tmp_path).embedder("st:model")
    assert not hit.exists()

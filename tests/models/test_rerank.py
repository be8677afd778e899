"""Reranking by a server and by a local cross-encoder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx_folders import export_onnx

from ragwright.core import ConfigError, ModelRefusedError, ModelReplyError
from ragwright.flow import RetryPolicy, Runner, rerank
from ragwright.models import (
    CrossEncoderReranker,
    LexicalReranker,
    Models,
    ModelSettings,
    Reranker,
    model_handlers,
)
from ragwright.testing import Reply, RerankerSuite, ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


PASSAGES = ["it rains", "the red car", "a car"]


def test_a_server_ranks_in_the_order_of_the_passages(server: ScriptedServer) -> None:
    models = Models({"acme": ModelSettings(base=server.url, price_in=1.0)})
    with Runner(model_handlers(models)) as runner:
        reply = runner.run(rerank("acme:r", "the red car", PASSAGES))
    assert int(np.argmax(reply.scores)) == 1
    assert reply.scores[0] == min(reply.scores)
    assert reply.usage.prompt_tokens == 42
    assert reply.usage.cost == pytest.approx(42e-6)
    assert server.requests[0].path.endswith("/rerank")


def test_missing_scores_are_a_bad_reply(server: ScriptedServer) -> None:
    server.play(Reply(malformed="no_choices"))
    models = Models({"acme": ModelSettings(base=server.url)})
    with (
        Runner(model_handlers(models), retry=RetryPolicy(attempts=1)) as runner,
        pytest.raises(ModelReplyError, match="2 scores for 3"),
    ):
        runner.run(rerank("acme:r", "car", PASSAGES))


@pytest.fixture(scope="session")
def cross_encoder(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny cross-encoder with random weights and a real vocabulary: it ranks nothing well."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "cross"
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=1,
        initializer_range=0.8,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(minilm)
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_cross_encoder_s_score_does_not_depend_on_neighbours(cross_encoder: Path) -> None:
    model = CrossEncoderReranker(cross_encoder)
    together = model.score("what is red?", PASSAGES)
    assert together == [model.score("what is red?", [p])[0] for p in PASSAGES]
    assert len(set(together)) == 3
    assert model.score("q", []) == []


@pytest.mark.slow
def test_a_cross_encoder_agrees_with_the_package(cross_encoder: Path) -> None:
    import sentence_transformers as st

    theirs = st.CrossEncoder(str(cross_encoder), device="cpu").predict(
        [("what is red?", p) for p in PASSAGES], show_progress_bar=False
    )
    assert np.allclose(CrossEncoderReranker(cross_encoder).score("what is red?", PASSAGES), theirs)


@pytest.mark.slow
def test_an_embedding_model_is_no_cross_encoder(
    minilm: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="no trained head") as refused:
        CrossEncoderReranker(minilm)
    assert "embed:" in str(refused.value)
    assert capfd.readouterr().err == ""


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
def test_a_cross_encoder_through_the_runner(cross_encoder: Path) -> None:
    name = f"st:{cross_encoder}"
    with Runner(model_handlers(Models())) as runner:
        reply = runner.run(rerank(name, "what is red?", PASSAGES))
    assert len(reply.scores) == 3
    assert reply.scale


@pytest.mark.slow
def test_the_identity_is_that_of_the_files_and_opens_nothing(
    cross_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(cross_encoder, copy)
    models = Models(root=tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(
            CrossEncoderReranker, "__init__", lambda *_: pytest.fail("opened for its identity")
        )
        found = models.reranker_identity("st:elsewhere")
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


class ByServer(Reranker):
    """A server's scores through a runner, in the shape that the suite asks for."""

    def __init__(self, models: Models, name: str) -> None:
        self._models, self._name = models, name
        self.identity, self.scale = name, ""

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        with Runner(model_handlers(self._models)) as runner:
            reply = runner.run(rerank(self._name, query, passages))
        self.scale = reply.scale
        return reply.scores


class TestServerConforms(RerankerSuite):
    @pytest.fixture(autouse=True)
    def _serve(self, server: ScriptedServer) -> None:
        self._models = Models({"acme": ModelSettings(base=server.url)})

    def make(self) -> Reranker:
        made = ByServer(self._models, "acme:ranker")
        made.score("q", ["p"])
        return made


@pytest.mark.slow
def test_a_cross_encoder_by_onnx_scores_as_by_torch(cross_encoder: Path, tmp_path: Path) -> None:
    folder = export_onnx(cross_encoder, tmp_path / "onnx")
    assert not [*folder.glob("*.safetensors")]
    passages = [*PASSAGES, "car " * 700]
    by_torch = CrossEncoderReranker(cross_encoder).score("the red car", passages)
    reranker = Models().reranker(f"onnx:{folder}")
    assert reranker.score("the red car", passages) == pytest.approx(by_torch, abs=1e-5)
    with pytest.raises(ModelRefusedError, match="fills the window"):
        reranker.score("car " * 700, PASSAGES)


@pytest.mark.slow
def test_an_embedding_model_is_no_onnx_cross_encoder(minilm_onnx: Path) -> None:
    with pytest.raises(ConfigError, match="one score per pair"):
        Models().reranker(f"onnx:{minilm_onnx}")

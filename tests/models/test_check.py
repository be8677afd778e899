"""Is a model usable? Every answer in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.models import LexicalReranker, Models, ModelSettings, check_model
from ragwright.testing import Reply, ScriptedServer


def test_a_server_that_lists_the_model() -> None:
    with ScriptedServer(models=["m", "llama3:latest"]) as server:
        models = Models({"acme": ModelSettings(base=server.url)})
        assert check_model(models, "acme:m").state == "ok"
        assert check_model(models, "acme:llama3").state == "ok"
        other = check_model(models, "acme:other")
    assert other.state == "warning"
    assert "llama3" in other.text
    assert all(r.method == "GET" for r in server.requests), "nothing was paid for"


def test_a_server_without_a_list() -> None:
    with ScriptedServer(Reply(status=404)) as server:
        found = check_model(Models({"acme": ModelSettings(base=server.url)}), "acme:m")
    assert (found.state, "no list" in found.text) == ("warning", True)


def test_a_server_that_is_not_there_rejects_or_hangs() -> None:
    with ScriptedServer() as gone:
        models = Models({"acme": ModelSettings(base=gone.url)})
    assert "cannot be reached" in check_model(models, "acme:m").text
    with ScriptedServer([Reply.bad_key(), Reply(malformed="hang")]) as server:
        models = Models({"acme": ModelSettings(base=server.url)})
        assert "key" in check_model(models, "acme:m").text
        assert "0.2 s" in check_model(models, "acme:m", timeout=0.2).text


def test_a_missing_key_and_an_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "OPENAI_API_KEY" in check_model(Models(), "openai:gpt").text
    assert "openai" in check_model(Models(), "opnai:gpt").text
    assert check_model(Models(), "onnx:/nowhere").state == "error"


@pytest.mark.slow
def test_local_ones(minilm_onnx: Path) -> None:
    found = check_model(Models(), f"onnx:{minilm_onnx}")
    assert found.state == "ok"
    assert "384" in found.text
    models = Models()
    models.register("mine", LexicalReranker())
    assert check_model(models, "mine").state == "ok"

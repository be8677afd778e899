"""Names of models, providers as data, keys from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragwright.core import ConfigError, MissingKeyError
from ragwright.models import PROVIDERS, Models, ModelSettings

PUBLIC = [
    *("anthropic", "cohere", "deepseek", "gemini", "groq"),
    *("mistral", "openai", "openrouter", "together"),
]


@pytest.mark.parametrize("provider", PUBLIC)
def test_public_providers_need_https_and_key(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Models().target(f"{provider}:some-model")
    assert target.base.startswith("https://")
    assert not target.free
    monkeypatch.delenv(target.key_env, raising=False)
    with pytest.raises(MissingKeyError, match=target.key_env):
        target.key()
    monkeypatch.setenv(target.key_env, " secret ")
    assert target.key() == "secret"
    for bad in ("sk-ü", "sk-a\nb"):  # no header can carry it
        monkeypatch.setenv(target.key_env, bad)
        with pytest.raises(MissingKeyError, match=target.key_env) as caught:
            target.key()
        assert bad not in str(caught.value)


LOCAL = "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("text", "kind", "name", "free"),
    [
        *((f"{p}:some", "server", "some", True) for p in ("ollama", "vllm", "lmstudio")),
        ("llamacpp:some", "server", "some", True),
        ("ollama:llama3.1:8b", "server", "llama3.1:8b", True),
        ("openrouter:meta/llama:free", "server", "meta/llama:free", False),
        (f"{LOCAL}#m", "server", "m", True),
        ("http://gpu-box:9000/v1/#team/model", "server", "team/model", False),
        ("onnx:/models/minilm", "folder", "/models/minilm", True),
    ],
)
def test_a_name_may_hold_colons_and_be_local(text: str, kind: str, name: str, free: bool) -> None:
    target = Models().target(text)
    assert (target.kind, target.name, target.free) == (kind, name, free)
    assert not free or target.key() == ""
    if text.startswith("http"):
        assert target.base == text.partition("#")[0].rstrip("/")


AZURE, DATABRICKS = "https://r.openai.azure.com", "https://w.example/serving-endpoints"


@pytest.mark.parametrize(
    ("provider", "variable", "value", "base"),
    [
        ("azure", "AZURE_OPENAI_ENDPOINT", f"{AZURE}/", f"{AZURE}/openai/v1"),
        (
            "bedrock",
            "AWS_REGION",
            "eu-west-1",
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
        ),
        ("databricks", "DATABRICKS_HOST", "w.example", DATABRICKS),
        ("databricks", "DATABRICKS_HOST", "w.example/", DATABRICKS),
        ("databricks", "DATABRICKS_HOST", "https://w.example", DATABRICKS),
        ("databricks", "DATABRICKS_HOST", "https://w.example/", DATABRICKS),
    ],
)
def test_addresses_that_hold_a_resource_or_a_region(
    provider: str, variable: str, value: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=variable):
        Models().target(f"{provider}:m")
    monkeypatch.setenv(variable, value)
    assert Models().target(f"{provider}:m").base == base


def test_the_guide_lists_every_provider_with_its_address_and_key() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "models.md").read_text("utf-8")
    for name, provider in PROVIDERS.items():
        if provider.kind == "server":
            assert provider.documented.startswith("https://")
            key = f"`{provider.key_env}`" if provider.key_env else "none"
            assert f"| [`{name}`]({provider.documented}) | `{provider.base}` | {key} |" in guide


@pytest.mark.parametrize(
    ("text", "says", "hides"),
    [
        *(
            (text, "", "-")
            for text in ("", "gpt-4", ":x", "openai:", "http://host/v1", "http://#m")
        ),
        ("http://me:hunter2@host/v1#m", "", "hunter2"),
        ("opnai:gpt", "openai", "-"),
        ("zzz:gpt", "ollama", "-"),
    ],
)
def test_what_is_no_name_is_refused(text: str, says: str, hides: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Models().target(text)
    assert says in str(caught.value)
    assert hides == "-" or hides not in str(caught.value)


@pytest.mark.parametrize("base", ["llm.example/v1", "ftp://x/v1", "http://", "http://x:port/v1"])
def test_a_base_address_that_is_none_is_refused(base: str) -> None:
    with pytest.raises(ConfigError, match="not a base address"):
        Models({"acme": ModelSettings(base=base)}).target("acme:m")


SEED = {"seed": 1, "top_p": 0.5}


@pytest.mark.parametrize(
    ("entries", "name", "settings"),
    [
        ({"acme": {"base": LOCAL, "concurrency": 3}}, "acme:big", {"concurrency": 3}),
        (
            {
                "openai": {"price_in": 1.0, "price_out": 2.0, "params": SEED},
                "openai:mini": {"price_in": 0.1, "params": {"seed": 2}},
            },
            "openai:mini",
            {"price_in": 0.1, "price_out": 2.0, "params": {"seed": 2, "top_p": 0.5}},
        ),
        ({"openai": {"price_in": 1.0}, "openai:mini": {"price_in": 0.1}}, "openai:large", {}),
    ],
)
def test_a_model_s_entry_wins_over_its_provider_s(
    entries: dict[str, dict[str, Any]], name: str, settings: dict[str, Any]
) -> None:
    models = Models({entry: ModelSettings(**given) for entry, given in entries.items()})
    found = models.target(name).settings
    wanted = settings or entries["openai"]
    assert {key: getattr(found, key) for key in wanted} == wanted


def test_a_key_is_never_sent_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    for entry in ("openai", "openai:m"):
        target = Models({entry: ModelSettings(base="http://elsewhere/v1/")}).target("openai:m")
        assert (target.base, target.key()) == ("http://elsewhere/v1", "")
    named = ModelSettings(base="http://proxy/v1", key_env="OPENAI_API_KEY")
    assert Models({"openai": named}).target("openai:m").key() == "sk-real"
    assert Models({"acme": named}).target("acme:m").key() == "sk-real"

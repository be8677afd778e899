"""Names of models, providers as data, keys from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import ConfigError, MissingKeyError
from ragwright.models import PROVIDERS, Models, ModelSettings

PUBLIC = [
    *("anthropic", "cohere", "deepseek", "gemini", "groq"),
    *("mistral", "openai", "openrouter", "together"),
]


@pytest.mark.parametrize("provider", PUBLIC)
def test_public_providers_need_https_and_a_key(
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


@pytest.mark.parametrize("provider", ["ollama", "vllm", "lmstudio", "llamacpp"])
def test_servers_on_this_machine_are_free_and_need_no_key(provider: str) -> None:
    target = Models().target(f"{provider}:some-model")
    assert target.free
    assert target.key() == ""


@pytest.mark.parametrize(
    ("provider", "variable", "value", "base"),
    [
        (
            "azure",
            "AZURE_OPENAI_ENDPOINT",
            "https://r.openai.azure.com/",
            "https://r.openai.azure.com/openai/v1",
        ),
        (
            "bedrock",
            "AWS_REGION",
            "eu-west-1",
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
        ),
        ("databricks", "DATABRICKS_HOST", "w.example", "https://w.example/serving-endpoints"),
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


def test_the_name_after_the_colon_may_hold_colons_and_slashes() -> None:
    assert Models().target("ollama:llama3.1:8b").name == "llama3.1:8b"
    assert Models().target("openrouter:meta/llama:free").name == "meta/llama:free"


def test_any_compatible_server_by_its_address() -> None:
    target = Models().target("http://gpu-box:9000/v1/#team/model")
    assert (target.base, target.name) == ("http://gpu-box:9000/v1", "team/model")
    assert not target.free
    assert Models().target("http://127.0.0.1:1/v1#m").free


@pytest.mark.parametrize(
    "text", ["", "gpt-4", ":x", "openai:", "http://host/v1", "http://#m", "http://u:p@host/v1#m"]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Models().target(text)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        Models().target("http://me:hunter2@host/v1#m")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("base", ["llm.example/v1", "ftp://x/v1", "http://", "http://x:port/v1"])
def test_a_base_address_that_is_none_is_refused(base: str) -> None:
    with pytest.raises(ConfigError, match="not a base address"):
        Models({"acme": ModelSettings(base=base)}).target("acme:m")


@pytest.mark.parametrize("key", ["sk-ü", "sk-a\nb"])
def test_a_key_that_no_header_can_carry_is_told(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(MissingKeyError, match="OPENAI_API_KEY") as caught:
        Models().target("openai:m").key()
    assert key not in str(caught.value)


def test_an_unknown_provider_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        Models().target("opnai:gpt")
    assert "openai" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        Models().target("zzz:gpt")
    assert "ollama" in str(caught.value)


def test_own_providers_come_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "k")
    settings = ModelSettings(base="https://llm.acme.example/v1/", key_env="ACME_KEY", concurrency=3)
    models = Models({"acme": settings})
    target = models.target("acme:big")
    assert target.base == "https://llm.acme.example/v1"
    assert target.key() == "k"
    assert target.settings.concurrency == 3
    assert models.target("acme:other").base == target.base


def test_a_model_s_entry_wins_over_its_provider_s() -> None:
    models = Models(
        {
            "openai": ModelSettings(price_in=1.0, price_out=2.0, params={"seed": 1, "top_p": 0.5}),
            "openai:mini": ModelSettings(price_in=0.1, params={"seed": 2}),
        }
    )
    mini = models.target("openai:mini").settings
    assert (mini.price_in, mini.price_out) == (0.1, 2.0)
    assert mini.params == {"seed": 2, "top_p": 0.5}
    assert models.target("openai:large").settings.price_in == 1.0


def test_a_key_is_never_sent_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    for entry in ("openai", "openai:m"):
        target = Models({entry: ModelSettings(base="http://elsewhere/v1")}).target("openai:m")
        assert target.base == "http://elsewhere/v1"
        assert target.key() == ""
    named = ModelSettings(base="http://proxy/v1", key_env="OPENAI_API_KEY")
    assert Models({"openai": named}).target("openai:m").key() == "sk-real"


def test_a_workspace_s_address_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DATABRICKS_HOST", raising=False)
    with pytest.raises(ConfigError, match="DATABRICKS_HOST"):
        Models().target("databricks:llama")
    for value in ("https://x.cloud.example", "x.cloud.example/", "https://x.cloud.example/"):
        monkeypatch.setenv("DATABRICKS_HOST", value)
        found = Models().target("databricks:llama").base
        assert found == "https://x.cloud.example/serving-endpoints"


def test_folders_are_local() -> None:
    target = Models().target("onnx:/models/minilm")
    assert (target.kind, target.free, target.name) == ("folder", True, "/models/minilm")

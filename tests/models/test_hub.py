"""Models by name from the hub, against a server of this machine that answers as the hub does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from children import printed
from hub_server import HubServer, commit_of, hub_server

from ragwright.models import Models

pytestmark = pytest.mark.slow

STATIC, FIRST, SECOND = "acme/static", commit_of("1"), commit_of("2")

Ran = subprocess.CompletedProcess[str]
Run = Callable[..., Ran]


def static_model(folder: Path, seed: int) -> Path:
    """A real model2vec folder over a vocabulary of a few words."""
    import numpy as np
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[UNK]", "brake", "fluid", "pump", "filter", "is", "changed", "every", "two", "years"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    # Wide enough that the weights are a large file of the hub, with a hash.
    vectors = np.random.default_rng(seed).normal(size=(len(words), 4096)).astype(np.float32)
    made = StaticModel(vectors, tokenizer, {"model_type": "model2vec", "normalize": True})
    made.save_pretrained(folder)
    for name in ("pytorch_model.bin", "photo.png"):
        (folder / name).write_bytes(b"never fetched")
    return folder


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("hub")
    return {FIRST: static_model(home / "1", 1), SECOND: static_model(home / "2", 2)}


@pytest.fixture
def hub(commits: dict[str, Path]) -> Iterator[HubServer]:
    with hub_server({STATIC: {FIRST: commits[FIRST]}}) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    text = "# Brakes\n\nThe brake fluid is changed every two years."
    (tmp_path / "docs/brakes.md").write_text(text)
    settings = f"embed: {{model: hf:{STATIC}}}\nsources: [docs]\n"
    (tmp_path / "ragwright.yaml").write_text(settings)
    return tmp_path


@pytest.fixture
def run(hub: HubServer, project: Path) -> Run:
    """A command in a process of its own: the hub's library reads its variables once."""

    def command(*words: str, code: int = 0, **environment: str) -> Ran:
        offline = ("HF_", "TRANSFORMERS_")
        kept = {k: value for k, value in os.environ.items() if not k.startswith(offline)}
        home = {"HF_HOME": str(project / "cache"), "HF_ENDPOINT": hub.url}
        done = printed(project, words, {**kept, **home, "COLUMNS": "200", **environment})
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return command


@pytest.fixture
def here(hub: HubServer, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub for this process: what its library has read of the variables is set anew.

    For models that need torch, which takes seconds to import in each further process.
    """
    from huggingface_hub import constants

    template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(project / "cache/hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def pins(project: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((project / "ragwright.lock").read_text())
    return found["models"]  # type: ignore[return-value]


def test_a_model_is_fetched_once_and_pinned(
    hub: HubServer, project: Path, run: Run, commits: dict[str, Path]
) -> None:
    def listed() -> dict[str, dict[str, object]]:
        return {one["name"]: one for one in json.loads(run("models", "--json").stdout)["models"]}

    states = {name: model["state"] for name, model in listed().items()}
    assert states == {"snippet": "ready", f"hf:{STATIC}": "not fetched"}
    run("ingest")
    assert not [line for line in hub.requests if "/acme/static" not in line], "nothing of ours"
    pin = pins(project)[STATIC]
    assert pin["revision"] == FIRST
    assert sorted({line.partition("/")[2] for line in hub.sent if line}) == pin["files"]
    found = listed()[f"hf:{STATIC}"]
    assert " MB" in str(found["text"])
    assert found["keys"] == ["embed.model"]
    assert f"hf:{STATIC}" in run("models").stdout
    assert "in the cache" in run("models", "--set", "embed.model=").stdout
    asked = len(hub.requests)
    assert "every two years" in run("ask", "how often is the brake fluid changed").stdout
    assert len(hub.requests) == asked, hub.requests[asked:]
    hub.models[STATIC] = commits  # a newer commit
    again = run("ingest")
    assert pins(project)[STATIC]["revision"] == FIRST
    assert "1 unchanged" in again.stdout + again.stderr
    run("ask", "brake fluid", HF_HOME=str(project / "other machine"))
    assert not [line for line in hub.requests if SECOND in line]
    (project / "ragwright.lock").unlink()
    run("ingest")
    assert pins(project)[STATIC]["revision"] == SECOND


def test_a_cut_download_is_resumed(
    hub: HubServer, project: Path, tmp_path: Path, commits: dict[str, Path]
) -> None:
    large = shutil.copytree(commits[FIRST], tmp_path / "large")
    (large / "model.safetensors").write_bytes(bytes(24_000_000))
    hub.models["acme/large"] = {FIRST: large}
    hub.cut = 22_000_000
    home = {"HF_HOME": str(project / "cache"), "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
    code = "from ragwright.models import Hub; Hub().folder('acme/large')"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **home}, check=True)
    (resumed,) = (line for line in hub.requests if " bytes=" in line)
    assert int(resumed.rpartition("bytes=")[2].rstrip("-")) > 10_000_000


def test_what_the_hub_refuses_says_what_to_do_without_the_token(hub: HubServer, run: Run) -> None:
    hub.damaged = True
    assert "SHA-256" in run("ingest", code=1).stderr
    hub.damaged = False
    hub.gated.add(STATIC)
    refused = run("ingest", code=1, HF_TOKEN="hf_secret123")
    assert "gated" in refused.stderr
    assert "HF_TOKEN" in refused.stderr
    assert "hf_secret123" not in refused.stderr + refused.stdout
    run("ingest", HF_TOKEN="hf_right")  # and the damaged weights are fetched again


@pytest.mark.parametrize(
    ("model", "environment", "said"),
    [
        ("acme/nothing", {}, ["hf:acme/nothing", "no such model"]),
        (f"{STATIC}@v9", {}, ["no such revision"]),
        ("a/b/c", {}, ["hf:ORG/NAME"]),
        ("acme/pickled", {}, ["no model.safetensors", "it has .bin"]),
        (STATIC, {"HF_HUB_OFFLINE": "1"}, ["HF_HUB_OFFLINE forbids fetching it", "onnx:FOLDER"]),
        (
            STATIC,
            {"HF_ENDPOINT": "http://127.0.0.1:9"},
            ["the hub cannot be reached", "onnx:FOLDER"],
        ),
        (STATIC, {"status": "500"}, ["hub"]),
    ],
)
def test_what_cannot_be_fetched_is_told(
    hub: HubServer,
    run: Run,
    tmp_path: Path,
    model: str,
    environment: dict[str, str],
    said: list[str],
) -> None:
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "pytorch_model.bin").write_bytes(b"x")
    (pickled / "config.json").write_text("{}")
    hub.models["acme/pickled"] = {FIRST: pickled}
    hub.status = int(environment.pop("status", 0))
    found = run("ingest", "--set", f"embed.model=hf:{model}", code=1, **environment).stderr
    assert [words for words in said if words not in found] == []


@pytest.mark.usefixtures("here")
def test_minilm_from_the_hub_equals_the_folder(
    hub: HubServer, project: Path, minilm: Path, minilm_onnx: Path
) -> None:
    hub.models["acme/torch"] = {FIRST: minilm}
    hub.models["acme/onnx"] = {FIRST: minilm_onnx}
    models = Models(root=project)
    names = ("hf:acme/torch", f"st:{minilm}", "hf:acme/onnx", f"onnx:{minilm_onnx}")
    torch, folder, onnx, exported = map(models.embedder_identity, names)
    assert torch == folder
    assert onnx == exported
    assert pins(project).keys() == {"acme/torch", "acme/onnx"}


def test_a_static_model_named_st_is_opened_as_what_it_is(commits: dict[str, Path]) -> None:
    named, static = (Models().embedder(f"{kind}:{commits[FIRST]}") for kind in ("st", "static"))
    assert named is not None
    assert static is not None
    assert named.identity == static.identity
    assert type(named) is type(static)

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
from command_line import ragwright
from hub_server import HubServer, commit_of, hub_server

from ragwright.models import Models

pytestmark = pytest.mark.slow

STATIC, FIRST, SECOND = "acme/static", commit_of("1"), commit_of("2")
SETTINGS = "embed: {{model: {model}}}\nsources: [docs]\n"

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
    StaticModel(vectors, tokenizer, {"model_type": "model2vec", "normalize": True}).save_pretrained(
        folder
    )
    (folder / "pytorch_model.bin").write_bytes(b"never fetched")
    (folder / "photo.png").write_bytes(b"never fetched")
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
    (tmp_path / "docs/brakes.md").write_text(
        "# Brakes\n\nThe brake fluid is changed every two years."
    )
    (tmp_path / "ragwright.yaml").write_text(SETTINGS.format(model=f"hf:{STATIC}"))
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


def python(project: Path, hub: HubServer, code: str) -> str:
    """Standard output of a Python program that runs in a process of its own."""
    home = {"HF_HOME": str(project / "cache"), "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **home},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pins(project: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((project / "ragwright.lock").read_text())
    return found["models"]  # type: ignore[return-value]


def test_a_model_is_fetched_once_pinned_and_used_without_network(
    hub: HubServer, project: Path, run: Run
) -> None:
    run("ingest")
    assert pins(project)[STATIC]["revision"] == FIRST
    assert (
        sorted({line.partition("/")[2] for line in hub.sent if line})
        == pins(project)[STATIC]["files"]
    )
    asked = len(hub.requests)
    answer = run("ask", "how often is the brake fluid changed")
    assert "every two years" in answer.stdout
    assert len(hub.requests) == asked, hub.requests[asked:]


def test_a_newer_commit_on_the_hub_changes_nothing_until_the_pin_goes(
    hub: HubServer, project: Path, run: Run, commits: dict[str, Path]
) -> None:
    run("ingest")
    hub.models[STATIC] = commits
    again = run("ingest")
    assert pins(project)[STATIC]["revision"] == FIRST
    assert "1 unchanged" in again.stdout + again.stderr
    (project / "ragwright.lock").unlink()
    run("ingest")
    assert pins(project)[STATIC]["revision"] == SECOND


def test_another_machine_fetches_the_pinned_commit(
    hub: HubServer, project: Path, run: Run, commits: dict[str, Path]
) -> None:
    run("ingest")
    hub.models[STATIC] = commits
    run("ask", "brake fluid", HF_HOME=str(project / "other machine"))
    assert not [line for line in hub.requests if SECOND in line]


def test_a_cut_download_is_resumed(
    hub: HubServer, project: Path, tmp_path: Path, commits: dict[str, Path]
) -> None:
    large = shutil.copytree(commits[FIRST], tmp_path / "large")
    (large / "model.safetensors").write_bytes(bytes(24_000_000))
    hub.models["acme/large"] = {FIRST: large}
    hub.cut = 22_000_000
    python(project, hub, "from ragwright.models import Hub; Hub().folder('acme/large')")
    resumed = [line for line in hub.requests if " bytes=" in line]
    assert len(resumed) == 1
    assert int(resumed[0].rpartition("bytes=")[2].rstrip("-")) > 10_000_000


def test_damaged_weights_are_refused_and_fetched_again(hub: HubServer, run: Run) -> None:
    hub.damaged = True
    assert "SHA-256" in run("ingest", code=1).stderr
    hub.damaged = False
    run("ingest")


def test_a_gated_model_says_what_to_do_and_never_shows_the_token(hub: HubServer, run: Run) -> None:
    hub.gated.add(STATIC)
    refused = run("ingest", code=1, HF_TOKEN="hf_secret123")
    assert "gated" in refused.stderr
    assert "HF_TOKEN" in refused.stderr
    assert "hf_secret123" not in refused.stderr + refused.stdout
    run("ingest", HF_TOKEN="hf_right")


def test_an_unknown_model_is_named(run: Run) -> None:
    found = run("ingest", "--set", "embed.model=hf:acme/nothing", code=1).stderr
    assert "hf:acme/nothing" in found
    assert "no such model" in found


def test_an_unknown_revision_is_named(run: Run) -> None:
    assert (
        "no such revision" in run("ingest", "--set", f"embed.model=hf:{STATIC}@v9", code=1).stderr
    )


def test_a_name_of_another_form_says_how_to_write_it(run: Run) -> None:
    assert "hf:ORG/NAME" in run("ingest", "--set", "embed.model=hf:a/b/c", code=1).stderr


@pytest.mark.parametrize("offline", ["", "1"])
def test_without_the_network_the_error_names_other_ways(run: Run, offline: str) -> None:
    more = {"HF_HUB_OFFLINE": "1"} if offline else {"HF_ENDPOINT": "http://127.0.0.1:9"}
    found = run("ingest", code=1, **more).stderr
    said = "HF_HUB_OFFLINE forbids fetching it" if offline else "the hub cannot be reached"
    assert said in found
    assert "onnx:FOLDER" in found


def test_a_failing_hub_is_said_to_fail(hub: HubServer, run: Run) -> None:
    hub.status = 500
    assert "hub" in run("ingest", code=1).stderr


def test_a_model_without_safe_weights_is_refused(hub: HubServer, run: Run, tmp_path: Path) -> None:
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "pytorch_model.bin").write_bytes(b"x")
    (pickled / "config.json").write_text("{}")
    hub.models["acme/pickled"] = {FIRST: pickled}
    found = run("ingest", "--set", "embed.model=hf:acme/pickled", code=1).stderr
    assert "no model.safetensors" in found
    assert "it has .bin" in found


def test_nothing_about_this_machine_is_sent_beside_the_requests(hub: HubServer, run: Run) -> None:
    run("ingest")
    assert not [line for line in hub.requests if "/acme/static" not in line]


def test_models_lists_what_is_named_with_the_size_of_its_files(project: Path, run: Run) -> None:
    before = json.loads(run("models", "--json").stdout)["models"]
    state = {model["name"]: model["state"] for model in before}
    assert state == {"snippet": "ready", f"hf:{STATIC}": "not fetched"}
    run("ingest")
    found = {m["name"]: m for m in json.loads(run("models", "--json").stdout)["models"]}
    assert " MB" in found[f"hf:{STATIC}"]["text"]
    assert found[f"hf:{STATIC}"]["keys"] == ["embed.model"]
    assert f"hf:{STATIC}" in run("models").stdout
    other = run("models", "--set", "embed.model=").stdout
    assert "in the cache" in other


def test_doctor_names_the_line_that_adds_semantic_search(run: Run) -> None:
    said = run("doctor", "--set", "embed.model=").stdout
    assert "keyword search alone" in said
    assert "embed: {model: hf:" in said


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


@pytest.mark.usefixtures("here")
def test_a_token_model_is_fetched_pinned_and_used_without_network(
    hub: HubServer, project: Path, minilm: Path, tmp_path: Path
) -> None:
    import transformers

    small = tmp_path / "small"
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    transformers.BertModel(transformers.BertConfig(num_hidden_layers=1, **sizes)).save_pretrained(
        small
    )
    transformers.AutoTokenizer.from_pretrained(minilm).save_pretrained(small)
    hub.models["acme/tokens"] = {SECOND: small}
    (project / "ragwright.yaml").write_text("sources: [docs]\n")
    row = {"user_input": "When?", "response": "every two years", "reference": "two years"}
    (project / "rows.jsonl").write_text(json.dumps(row))
    words = ("score", "rows.jsonl", "--measures", "BERTScore", "--json", "--set")
    named = ragwright(project, *words, "judge.token_model=hf:acme/tokens")
    assert pins(project)["acme/tokens"]["revision"] == SECOND
    asked = len(hub.requests)
    again = ragwright(project, *words, "judge.token_model=hf:acme/tokens")
    assert len(hub.requests) == asked, hub.requests[asked:]
    local = ragwright(project, *words, f"judge.token_model=st:{small}")
    means = [json.loads(r.stdout)["measures"]["BERTScore"]["mean"] for r in (named, again, local)]
    assert len(set(means)) == 1
    assert 0 < means[0] < 1


def test_a_static_model_named_st_is_opened_as_what_it_is(commits: dict[str, Path]) -> None:
    named, static = (Models().embedder(f"{kind}:{commits[FIRST]}") for kind in ("st", "static"))
    assert named is not None
    assert static is not None
    assert named.identity == static.identity
    assert type(named) is type(static)

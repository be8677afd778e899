from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import ragwright, spawned
from small_project import MakeProject


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return MakeProject(tmp_path)()


def test_keys_are_made_listed_and_revoked_by_command(project: Path) -> None:
    made = json.loads(
        ragwright(project, "keys", "add", "app", "--filter", "tenant=acme", "--json").stdout
    )
    assert made["key"].startswith("rw_")
    twice = ragwright(project, "keys", "add", "app", code=1)
    assert "there is a key named 'app' already" in twice.stderr
    [listed] = json.loads(ragwright(project, "keys", "list", "--json").stdout)["keys"]
    assert listed["filters"] == ["tenant=acme"]
    assert "hash" not in listed
    assert "did you mean 'app'" in ragwright(project, "keys", "revoke", "ap", code=1).stderr
    ragwright(project, "keys", "revoke", "app")
    assert "no keys" in ragwright(project, "keys", "list").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a", "--role", "root"), "is not a role"),
        (("a", "--filter", "tenant"), "as a filter"),
        (("", "--role", "owner"), "cannot name a key"),
        (("a", "--role", "owner", "--filter", "tenant=a"), "takes no filters"),
    ],
)
def test_wrong_rights_are_refused(project: Path, words: tuple[str, ...], said: str) -> None:
    assert said in ragwright(project, "keys", "add", *words, code=1).stderr


def test_a_wrong_configuration_is_said_before_the_server_listens(project: Path) -> None:
    file = project / "ragwright.yaml"
    file.write_text(
        "sources: [docs/]\nserve: {configurations: {good: ['retrieve.top_k=1'], "
        "wrong: ['retrieve.top_q=1']}}\n",
        "utf-8",
    )
    done = ragwright(project, "serve", "--port", "0", code=1)
    assert "serve.configurations.wrong" in done.stderr
    assert "top_k" in done.stderr
    assert "serving" not in done.stderr


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_server_with_an_error(
    project: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        'import os, sys\nif "RAGWRIGHT_SERVING" in os.environ:\n    sys.modules["jinja2"] = None\n'
    )
    path = os.pathsep.join(filter(None, (str(broken), os.environ.get("PYTHONPATH", ""))))
    done = spawned(project, "serve", "--port", "0", "--workers", "2", code=1, PYTHONPATH=path)
    assert "a worker did not start" in done.stderr


def test_keys_that_cannot_be_written_are_an_error_without_a_traceback(project: Path) -> None:
    data = project / ".ragwright/data"
    (data / "ledger.sqlite").mkdir(parents=True)
    done = ragwright(project, "keys", "add", "app", code=1)
    assert ".ragwright/data/ledger.sqlite" in done.stderr

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright
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

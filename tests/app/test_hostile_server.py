"""Commands against a model server that means no good, as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright as called
from raw_server import Raw, chat_reply, raw_server
from small_project import MakeProject
from waiting import skip_short_pauses

KEY = "sk-proj-0123456789abcdefghij"
ROWS = [{"user_input": "When is the brake fluid changed?", "reference": "every two years"}]


def project(folder: Path, url: str) -> Path:
    settings = f"{{key_env: THE_KEY, price_in: 1, price_out: 1}}\n  x: {{base: {url}}}"
    made = MakeProject(folder)(f"answer: {{model: '{url}#m'}}\nmodels:\n  '{url}#m': {settings}\n")
    (made / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    called(made, "ingest")
    return made


def evaluated(folder: Path, *more: str, code: int = 0) -> dict[str, Any]:
    words = ("--testset", "rows.jsonl", "--measures", "Contains", "--json", *more)
    found: dict[str, Any] = json.loads(called(folder, "eval", *words, code=code).stdout)
    return found


def test_half_a_surrogate_pair_in_a_reply_ends_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    half = chat_reply("every two years half [1]").replace(b"half", b"half \\ud800")
    with raw_server(Raw(half)) as server:
        folder = project(tmp_path, server.url)
        for more in ((), ("--resume",)):
            assert evaluated(folder, *more)["measures"]["Contains"]["mean"] == 1.0
        asked = called(folder, "ask", "How often is the oil changed?", "--json").stdout
    assert json.loads(asked)["answers"][0]["text"].startswith("every two years half \ufffd")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Raw(f"denied {KEY}".encode(), kind="text/plain"), 101),
        (Raw(json.dumps({"error": {"message": f"no: {KEY}"}}).encode(), 400), 101),
        (Raw(chat_reply(f"two years, says {KEY} [1]", model=KEY)), 0),
    ],
)
def test_a_key_that_a_server_repeats_is_neither_shown_nor_stored(
    reply: Raw, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)

    skip_short_pauses(monkeypatch)
    with raw_server(reply) as server:
        folder = project(tmp_path, server.url)
        said = json.dumps(evaluated(folder, code=code))
        question = "How often is the oil changed?"
        for more in (("--json",), ()):
            done = called(folder, "ask", question, *more, code=0 if code == 0 else 1)
            said += done.stdout + done.stderr
    assert KEY not in said
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "ledger.sqlite" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_negative_usage_does_not_lift_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    usage = {"prompt_tokens": -1_000_000, "completion_tokens": -5_000_000}
    with raw_server(Raw(chat_reply("every two years [1]", usage=usage))) as server:
        folder = project(tmp_path, server.url)
        rows = [{**ROWS[0], "user_input": f"When is fluid {n} changed?"} for n in range(40)]
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        asked = called(folder, "ask", "How often is the oil changed?").stdout
        yaml = folder / "ragwright.yaml"
        yaml.write_text(yaml.read_text("utf-8").replace("price_in: 1,", "price_in: 10000,"))
        found = evaluated(folder, "--max-cost", "10", "-j", "1", code=101)
    states = found["measures"]["Contains"]["states"]
    assert 0 < states.get("scored", 0) < 40
    assert "cannot be right: estimated" in asked


def test_ingest_embeds_again_on_request(tmp_path: Path) -> None:
    def reply(_path: str, body: Any) -> Raw:
        data = [{"index": i, "embedding": [1.0, len(t)]} for i, t in enumerate(body["input"])]
        return Raw(json.dumps({"data": data}).encode())

    with raw_server(reply) as server:
        folder = MakeProject(tmp_path)(f"embed: {{model: '{server.url}#m'}}\n")
        called(folder, "ingest")
        again = json.loads(called(folder, "ingest", "--json").stdout)
        assert again["chunks"]["embedded"] == 0
        again = json.loads(called(folder, "ingest", "--embed-again", "--json").stdout)
    assert (again["documents"]["unchanged"], again["chunks"]["embedded"]) == (2, 2)

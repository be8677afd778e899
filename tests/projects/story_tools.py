"""What the stories share: a project from a few texts, and commands whose JSON is read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from command_line import ragwright

from ragwright.testing import ScriptedServer, ServerRequest


def playing(script: Any, scope: Literal["module", "function"] = "module") -> Any:
    def server() -> Iterator[ScriptedServer]:
        with ScriptedServer(script) as running:
            yield running

    return pytest.fixture(scope=scope)(server)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files into a folder, with the folders that they need."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def make_project(
    folder: Path, texts: Mapping[str, str | bytes], settings: str = "", **files: str
) -> Path:
    """A project over these texts, ingested; ``files`` are Python modules beside it."""
    write_files(folder, {f"docs/{name}": text for name, text in texts.items()})
    write_files(folder, {f"{name}.py": text for name, text in files.items()})
    write_files(folder, {"ragwright.yaml": f"sources: [docs/]\n{settings}"})
    ragwright(folder, "ingest", "-q")
    return folder


def lacking(text: str, *words: str) -> list[str]:
    return [word for word in words if word not in text]


def read_rows(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def csv_rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines))


def prompts_of(server: ScriptedServer, since: int, *models: str) -> list[str]:
    """The prompts that these models were sent from this request on."""
    bodies = [request.body for request in server.requests[since:]]
    return [
        "\n".join(str(message["content"]) for message in body["messages"])
        for body in bodies
        if "messages" in body and body["model"] in models
    ]


def run(folder: Path, command: str, *more: str, code: int | None = 0) -> str:
    """What a command prints: its words in one text, and those that hold spaces after it."""
    return ragwright(folder, *command.split(), *more, code=code).stdout


def read_json(folder: Path, command: str, *more: str, code: int | None = 0) -> Any:
    return json.loads(run(folder, command, *more, "--json", code=code))


def write_rows(file: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def embedded(server: ScriptedServer, since: int = 0) -> list[str]:
    """The texts that a model server has embedded from this request on."""
    bodies = [request.body for request in server.requests[since:]]
    return [text for body in bodies if "input" in body for text in body["input"]]


def settings(**values: object) -> list[str]:
    pairs = [f"{key.replace('__', '.')}={value}" for key, value in values.items()]
    return [word for pair in pairs for word in ("--set", pair)]


def schema_keys(request: ServerRequest) -> list[str]:
    """The keys that a chat request wants in the reply, if it wants JSON."""
    form = request.body.get("response_format") or {}
    return list(form.get("json_schema", {}).get("schema", {}).get("properties", ()))


class Model:
    """A chat model that replies by the model's name, then by what the schema asks for."""

    def __init__(self, **said: str | dict[str, Any]) -> None:
        self.said = said
        self.seen: list[ServerRequest] = []

    def __call__(self, request: ServerRequest) -> str:
        if "messages" not in request.body:
            return ""
        self.seen.append(request)
        for name in (*schema_keys(request), request.body["model"]):
            if name in self.said:
                said = self.said[name]
                return said if isinstance(said, str) else json.dumps(said)
        return "Nothing known."

    def prompts(self, model: str) -> list[str]:
        return [
            "\n".join(str(turn["content"]) for turn in request.body["messages"])
            for request in self.seen
            if request.body["model"] == model
        ]

"""A server that answers as the Hugging Face hub does, over folders of this machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from raw_server import QuietHandler, serving

_LARGE = 100_000


@dataclass
class HubServer:
    """What the hub holds and how it behaves; ``requests`` are the lines that it was sent."""

    models: dict[str, dict[str, Path]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    cut: int = 0
    damaged: bool = False
    status: int = 0
    requests: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def sent(self) -> list[str]:
        return [line.partition("/resolve/")[2] for line in self.requests if line[:3] == "GET"]


def commit_of(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


class _Handler(QuietHandler):
    hub: HubServer

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        given = self.headers.get("Range", "")
        self.hub.requests.append(f"{self.command} {self.path} {given}".strip())
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        api = parts[:2] == ["api", "models"]
        name, rest = "/".join(parts[2:4] if api else parts[:2]), parts[4:] if api else parts[3:]
        if self.hub.status:
            return self._error(self.hub.status, "", "down")
        if name not in self.hub.models:
            return self._error(401, "RepoNotFound", "Repository not found")
        if name in self.hub.gated and self.headers.get("Authorization") != "Bearer hf_right":
            return self._error(403, "GatedRepo", "Access to model is restricted")
        commits = self.hub.models[name]
        if api:
            return self._api(commits, *rest[:2])
        if rest[0] not in commits:
            return self._error(404, "RevisionNotFound", "Invalid rev")
        found = commits[rest[0]].joinpath(*rest[1:])
        if not found.is_file():
            return self._error(404, "EntryNotFound", "no such file")
        return self._file(found, rest[0], given)

    def _api(self, commits: dict[str, Path], kind: str = "", revision: str = "") -> None:
        commit = list(commits)[-1] if revision in {"", "main"} else revision
        if commit not in commits:
            return self._error(404, "RevisionNotFound", "Invalid rev")
        if kind not in {"", "revision", "tree"}:
            return self._error(404, "EntryNotFound", kind)
        home = commits[commit]
        entries = [_entry(home, p) for p in sorted(home.rglob("*")) if p.is_file()]
        shown: object = {"id": "m", "sha": commit, "siblings": entries}
        if kind == "tree":
            shown = [{"type": "file", "path": e["rfilename"], **e} for e in entries]
        return self._send(200, json.dumps(shown).encode(), {"Content-Type": "application/json"})

    def _file(self, path: Path, commit: str, given: str) -> None:
        data = path.read_bytes()
        start = int(given.removeprefix("bytes=").partition("-")[0]) if given else 0
        rest = data[start:]
        if self.hub.damaged and len(data) > _LARGE:
            rest = bytes(len(rest))
        head = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
        if given:
            head["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._send(206 if given else 200, rest, head)

    def _error(self, status: int, code: str, text: str) -> None:
        self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": text})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.begin(status, {**headers, "Content-Length": str(len(data))})
        if self.command == "HEAD":
            return
        if 0 < self.hub.cut < len(data):
            data, self.hub.cut = data[: self.hub.cut], 0
            self.close_connection = True
        self.wfile.write(data)


@contextmanager
def hub_server(models: dict[str, dict[str, Path]]) -> Iterator[HubServer]:
    hub = HubServer(models)
    with serving(type("_Handler", (_Handler,), {"hub": hub})) as port:
        hub.url = f"http://127.0.0.1:{port}"
        yield hub


def _entry(home: Path, path: Path) -> dict[str, object]:
    name, size = path.relative_to(home).as_posix(), path.stat().st_size
    entry: dict[str, object] = {"rfilename": name, "size": size, "oid": "0" * 40}
    if size > _LARGE:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entry["lfs"] = {"sha256": digest, "oid": digest, "size": size, "pointerSize": 134}
    return entry

"""Readers who enter a key on the pages: a signed cookie that ends with the key and is no key."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest
from browsing import opened
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ListenAddress, ServedProject, ServeKey, ServeKeys, serve
from ragwright.testing import ScriptedServer

QUESTION = "How often must the brake fluid be changed?"
NAME = "ragwright_reader"


def project(tmp_path: Path, settings: str = "") -> Path:
    folder = MakeProject(tmp_path)(f"serve: {{name: handbook}}\n{settings}")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def key(folder: Path, name: str = "reader") -> str:
    return ServeKeys(ProjectFolder(folder)).add(ServeKey(name), again=True)


def signed(folder: Path, secret: str, ends: str) -> str:
    """The cookie that a server signs, computed here."""
    known = ServeKeys(ProjectFolder(folder)).find(secret)
    assert known is not None
    signature = hmac.new(known.hash.encode(), f"{NAME} {ends}".encode(), "sha256").hexdigest()
    return f"{known.hash[:16]}.{ends}.{signature}"


def test_a_cookie_is_no_key_and_nobody_else_can_sign_one(tmp_path: Path) -> None:
    folder = project(tmp_path)
    secret, other = key(folder), key(folder, "other")
    with served(folder) as running:
        http = running.client()
        cookie = http.post("/login", data={"key": secret}).headers["set-cookie"]
        value = cookie.partition("=")[2].partition(";")[0]
        assert secret not in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Secure" not in cookie, "it came without TLS"
        assert http.get("/sources").status_code == 200
        ends = value.split(".")[1]
        assert value == signed(folder, secret, ends)
        for name in ("authorization", "x-api-key"):
            sent = f"Bearer {value}" if name == "authorization" else value
            assert running.client().get("/v1/models", headers={name: sent}).status_code == 401
        of_other = signed(folder, other, ends)
        forged = [
            signed(folder, secret, "1"),  # it has ended
            value.replace(ends, "9" * 11),
            value.replace(ends, "9" * 5000),
            of_other[:16] + value[16:],
            value[:-1] + ("0" if value[-1] != "0" else "1"),
            value.upper(),
            "..",
            "\u0661" + value[1:],
        ]
        for text in forged:
            sent_cookie = {b"cookie": f"{NAME}={text}".encode()}
            assert running.client().get("/sources", headers=sent_cookie).status_code == 401, text


def test_a_cookie_holds_after_a_restart_and_not_after_its_key(tmp_path: Path) -> None:
    folder = project(tmp_path)
    secret = key(folder)
    with served(folder) as running:
        cookie = running.client().post("/login", data={"key": secret}).headers["set-cookie"]
    sent = {"cookie": cookie.partition(";")[0]}
    with served(folder) as running:
        assert running.client().get("/sources", headers=sent).status_code == 200
        ServeKeys(ProjectFolder(folder)).revoke("reader")
        assert running.client().get("/sources", headers=sent).status_code == 401
        key(folder)
        assert running.client().get("/sources", headers=sent).status_code == 401, "another key"


def test_behind_tls_the_cookie_is_sent_by_tls_alone(tmp_path: Path) -> None:
    folder = project(tmp_path)
    secret = key(folder)
    with served(folder, "serve.public_url=https://ask.example.org") as running:
        cookie = running.client().post("/login", data={"key": secret}).headers["set-cookie"]
    assert "; Secure" in cookie


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil", "/\t/evil.example", "https://e.x"])
def test_nobody_is_led_to_another_site(tmp_path: Path, wanted: str) -> None:
    folder = project(tmp_path)
    secret = key(folder)
    with served(folder) as running:
        away = running.http.post("/login", data={"key": secret, "next": wanted})
        assert away.headers["location"] == "/"
        assert f'value="{wanted}"' not in running.http.get("/login", params={"next": wanted}).text


def test_a_link_never_asks(tmp_path: Path) -> None:
    with ScriptedServer("Every two years [1].") as model:
        folder = project(tmp_path, f"answer: {{model: '{model.url}#writer'}}\n")
        secret = key(folder)
        with served(folder) as running:
            http = running.client()
            http.post("/login", data={"key": secret})
            shown = http.get("/", params={"q": QUESTION})
            assert QUESTION in shown.text, "the form holds it"
            assert not model.requests
            asked = {"q": QUESTION}
            foreign = {"origin": "http://evil.example"}
            assert http.post("/", data=asked, headers=foreign).status_code == 403
            assert not model.requests
            assert "Every two years" in http.post("/", data=asked).text
            assert len(model.requests) == 1


@pytest.mark.slow
def test_a_link_of_another_site_opens_and_its_form_does_not(browser: Any, tmp_path: Path) -> None:
    folder = project(tmp_path)
    secret = key(folder)
    with served(folder) as running:
        page = opened(browser, running.address + "/login", [])
        page.fill("#key", secret)
        page.click("button.go")
        page.wait_for_selector("#ask")
        link = f"<a href='{running.address}/sources'>cited</a>"
        form = f"<form method=post action='{running.address}/'><input name=q value=a>"
        page.goto(f"data:text/html,{link}{form}<button>x</button></form>")
        page.click("a")
        page.wait_for_url("**/sources")
        assert page.locator("h1").inner_text() == "Sources"
        page.go_back()
        with page.expect_response(running.address + "/") as refused:
            page.click("button")
        assert refused.value.status in (401, 403)
        page.close()


@pytest.mark.parametrize(
    ("host", "public", "warns"),
    [
        ("0.0.0.0", "", True),
        ("0.0.0.0", "http://rag.lan", True),
        ("0.0.0.0", "https://rag.example", False),
        ("127.0.0.1", "", False),
    ],
)
def test_a_server_without_tls_that_others_reach_warns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str, public: str, warns: bool
) -> None:
    folder = project(tmp_path)
    key(folder)
    overrides = (f"serve.public_url={public}",) if public else ()

    class StopError(Exception):
        pass

    def stop(*_: object) -> None:
        raise StopError

    with pytest.raises(StopError):
        serve(ServedProject(folder, overrides), ListenAddress(host, 0, 1, stop))
    assert ("served without TLS" in capsys.readouterr().err) is warns

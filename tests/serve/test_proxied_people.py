"""People whom a proxy names in headers: what counts, what is refused, what they may do."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from served import served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError
from ragwright.project import ProjectFolder
from ragwright.serve import ListenAddress, ServedProject, ServeKey, ServeKeys, serve

PROXY = (
    "  proxy: {addresses: [127.0.0.1], user_header: Remote-User, name_header: Remote-Name, "
    "groups_header: Remote-Groups}\n"
)
PEOPLE = "  people: {roles: {reader: [staff], reviewer: [editors], owner: [admins]}}\n"


def project(tmp_path: Path, settings: str) -> Path:
    folder = MakeProject(tmp_path)(f"serve:\n  name: handbook\n{settings}")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def test_headers_count_only_from_the_proxy(tmp_path: Path) -> None:
    folder = project(tmp_path, PROXY + PEOPLE)
    named = {"remote-user": "ann", "remote-groups": "staff, other"}
    with served(folder) as server:
        http = server.http
        assert http.get("/v1/models").status_code == 401, "also on this machine"
        assert http.get("/v1/models", headers=named).status_code == 200
        labelled = [(b"remote-user", b"ann"), (b"remote-groups", b"staff")]
        labelled.append((b"remote-name", "Ann É".encode()))
        shown = http.get("/sources", headers=labelled).text
        assert ">Ann É<" in shown
        assert "Sign out" not in shown, "that is the proxy's to do"
        wrong: list[list[tuple[str, str]]] = [
            [("remote-user", "ann"), ("remote-user", "olga"), ("remote-groups", "staff")],
            [("remote-user", "ann"), ("remote-groups", "staff"), ("remote-groups", "admins")],
            [("remote_user", "ann"), ("remote-groups", "staff")],
            [("remote-user", "x" * 256), ("remote-groups", "staff")],
            [("remote-user", "ann"), ("remote-groups", ",".join(map(str, range(501))))],
            [("remote-groups", "staff")],
        ]
        assert {http.get("/v1/models", headers=sent).status_code for sent in wrong} == {401}
        refused = http.get("/v1/models", headers={"remote-user": "eve"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "no_role")
        rebound = {**named, "host": "evil.example"}
        assert http.get("/v1/models", headers=rebound).status_code == 421
        other = httpx2.HTTPTransport(local_address="127.0.0.2")
        with httpx2.Client(transport=other, base_url=server.address) as foreign:
            assert foreign.get("/v1/models", headers=named).status_code == 401


def test_a_header_that_is_not_named_counts_for_nothing(tmp_path: Path) -> None:
    """A proxy that replaces one header lets through what a client sends in others."""
    folder = project(
        tmp_path,
        "  proxy: {addresses: [127.0.0.1], user_header: Remote-User}\n"
        "  people: {default_role: reader, roles: {owner: [admins]}}\n",
    )
    sent = {"remote-user": "eve"}
    for name in ("remote-groups", "x-forwarded-groups", "x-auth-request-groups"):
        sent[name] = "admins"
    with served(folder) as server:
        assert server.http.get("/v1/models", headers=sent).status_code == 200
        assert server.http.get("/outputs", headers=sent).status_code == 403


def test_keys_work_beside_people(tmp_path: Path) -> None:
    folder = project(tmp_path, PROXY + PEOPLE)
    secret = ServeKeys(ProjectFolder(folder)).add(ServeKey("program"))
    with served(folder) as server:
        http = server.client(secret)
        assert http.get("/v1/models").status_code == 200
        named = {"remote-user": "olga", "remote-groups": "admins"}
        assert http.get("/outputs").status_code == 403
        assert http.get("/outputs", headers=named).status_code == 200, "the person counts"


def test_groups_decide_what_people_may(tmp_path: Path) -> None:
    folder = project(tmp_path, PROXY + PEOPLE)
    seen = {}
    with served(folder) as server:
        for group in ("staff", "editors", "admins", "visitors", "staff,admins"):
            headers = {"remote-user": "ann", "remote-groups": group}
            pages = ("/v1/models", "/testsets", "/outputs")
            seen[group] = [server.http.get(page, headers=headers).status_code for page in pages]
    assert seen == {
        "staff": [200, 403, 403],
        "editors": [200, 200, 403],
        "admins": [200, 200, 200],
        "visitors": [403, 403, 403],
        "staff,admins": [200, 200, 200],
    }


def test_credentials_that_browsers_add_open_no_way_for_other_sites(tmp_path: Path) -> None:
    """Browsers send a proxy's Basic credentials with the forms of every site."""
    folder = project(tmp_path, PROXY + "  people: {default_role: reader}\n")
    foreign = {"remote-user": "ann", "origin": "https://other.example"}
    with served(folder) as server:
        for credentials in ("Basic YW5uOng=", "Negotiate YQ=="):
            sent = {**foreign, "authorization": credentials}
            assert server.http.post("/", data={"q": "a"}, headers=sent).status_code == 403


@pytest.mark.parametrize(
    ("sent", "readable"),
    [
        (["staff", "/hr/berlin"], {"berlin.md"}),
        (["staff", "hr/berlin"], {"berlin.md"}),
        (["staff", "/hr"], {"hr.md"}),
        (["staff", "/hr", "/hr/berlin", "hr"], {"hr.md", "berlin.md"}),
        (["staff", "/berlin"], set()),
        (["staff", "//hr", "/hr/", "/", "hr/berlin/team", "/HR"], set()),
    ],
)
def test_a_group_is_named_by_its_path_without_the_first_slash(
    tmp_path: Path, sent: list[str], readable: set[str]
) -> None:
    """Keycloak sends full paths; a member of a group below is no member of the one above."""
    texts = {
        name: f"---\ngroups: [{group}]\n---\n# Plan\n\nThe door opens.\n"
        for name, group in (("hr.md", "hr"), ("berlin.md", "hr/berlin"))
    }
    folder = MakeProject(tmp_path)(f"serve:\n{PROXY}{PEOPLE}", **texts)
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as server:
        reply = server.http.post(
            "/v1/retrieve",
            json={"query": "What opens the plan?"},
            headers={"remote-user": "ann", "remote-groups": ",".join(sent)},
        )
        seen = {hit["document_id"].removeprefix("docs/") for hit in reply.json()["hits"]}
        assert seen == readable


def test_configurations_are_opened_by_groups(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        PROXY + "  configurations: {short: [retrieve.top_k=2], wide: [retrieve.top_k=9]}\n"
        "  people: {default_role: reader, roles: {owner: [admins]}, "
        "configurations: {staff: [short], more: [wide, short]}}\n",
    )
    seen = {}
    with served(folder) as server:
        for group in ("staff", "more", "admins", "none"):
            headers = {"remote-user": "ann", "remote-groups": group}
            reply = server.http.get("/v1/models", headers=headers).json()
            seen[group] = [entry["id"] for entry in reply.get("data", [])]
    assert seen["staff"] == ["short"]
    assert sorted(seen["more"]) == ["short", "wide"]
    assert sorted(seen["admins"]) == ["handbook", "short", "wide"]
    assert seen["none"] == [], "a group that opens nothing does not open everything"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ("proxy: {user_header: Remote-User}", "no address"),
        ("proxy: {groups_header: Remote-Groups}", "no address"),
        ("proxy: {addresses: [10.0.0.5], groups_header: G}", "user_header is empty"),
        ("proxy: {addresses: [0.0.0.0/0], user_header: U}", "names every address"),
        ("proxy: {addresses: [proxy.example], user_header: U}", "does not appear to be"),
        ("proxy: {addresses: [10.0.0.5], user_header: Authorization}", "cannot name people"),
        ("proxy: {addresses: [10.0.0.5], user_header: 'Remote User'}", "cannot name people"),
        ("proxy: {addresses: [10.0.0.5], user_header: U}", "people lets nobody in"),
        ("people: {roles: {admin: [x]}}", "'admin' is not a role"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, settings: str, fault: str) -> None:
    folder = MakeProject(tmp_path)(f"serve:\n  {settings}\n")
    with pytest.raises(ConfigError, match=fault):
        serve(ServedProject(folder), ListenAddress("127.0.0.1", 0))


def test_no_key_is_named_like_a_person(tmp_path: Path) -> None:
    folder = project(tmp_path, "  port: 0\n")
    with pytest.raises(ConfigError, match="names of people"):
        ServeKeys(ProjectFolder(folder)).add(ServeKey("proxy:ann"))

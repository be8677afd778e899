"""Access tokens and the headers of a proxy: what is refused, and why."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from forging_provider import ForgingProvider, forging_provider
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError
from ragwright.project import ProjectFolder
from ragwright.serve import Listening, ServeKey, ServeKeys, Serving, Sessions, serve

AUDIENCE = "https://ask.example.org/v1"
PEOPLE = "  people: {roles: {reader: [staff], reviewer: [editors], owner: [admins]}}\n"


def project(tmp_path: Path, settings: str) -> Path:
    folder = MakeProject(tmp_path)(f"serve:\n  name: handbook\n{settings}")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


@pytest.fixture(scope="module")
def issuing() -> Iterator[ForgingProvider]:
    with forging_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, issuing: ForgingProvider) -> Path:
    sign_in = f"  sign_in: {{issuer: '{issuing.issuer}', audiences: ['{AUDIENCE}']}}\n"
    return project(tmp_path_factory.mktemp("tokens"), sign_in + PEOPLE)


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Running]:
    with served(folder) as server:
        yield server


def status(running: Running, token: str) -> tuple[int, str]:
    reply = running.http.get("/v1/models", headers={"authorization": f"Bearer {token}"})
    return reply.status_code, "" if reply.is_success else reply.json()["error"]["message"]


def test_a_sound_token_lets_in(running: Running, issuing: ForgingProvider) -> None:
    now = int(time.time())
    assert status(running, issuing.token(AUDIENCE)) == (200, "")
    assert status(running, issuing.token(["x", AUDIENCE])) == (200, "")
    by_curve = issuing.token(AUDIENCE, by=issuing.other, algorithm="ES256", kid="2")
    assert status(running, by_curve) == (200, "")
    skewed = issuing.token(AUDIENCE, exp=now - 50, iat=now + 50, nbf=now + 50)
    assert status(running, skewed) == (200, ""), "clocks may differ by a minute"


NOW = int(time.time())


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ({"exp": NOW - 120}, "expired"),
        ({"nbf": NOW + 100_000}, "not yet valid"),
        ({"iat": NOW + 100_000}, "not yet valid"),
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"sub": None}, "sub"),
        ({"exp": "soon"}, "exp"),
        ({"exp": 1e999}, "refused"),
        ({"aud": "https://other.example"}, "another audience"),
        ({"aud": AUDIENCE + "/"}, "another audience"),
        ({"aud": None}, "aud"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"sub": 7}, "ubject"),
        ({"sub": ""}, "subject"),
        ({"sub": "ann\n"}, "subject"),
        ({"sub": "x" * 256}, "subject"),
        ({"nonce": "n"}, "not an ID token"),
        ({"typ": "ID"}, "not an ID token"),
        ({"groups": {"staff": 1}}, "not a list"),
        ({"groups": ["g"] * 501}, "more than 500"),
        ({"kid": "unknown"}, "unknown key"),
        ({"kid": "2"}, "unknown key"),
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(
    running: Running, issuing: ForgingProvider, claims: dict[str, Any], fault: str
) -> None:
    code, message = status(running, issuing.token(AUDIENCE, **claims))
    assert (code, fault in message) == (401, True), message


def test_a_token_that_the_provider_did_not_sign_is_refused(
    running: Running, issuing: ForgingProvider
) -> None:
    public = issuing.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head, body, signature = issuing.token(AUDIENCE).split(".")
    claims = {**json.loads(base64.urlsafe_b64decode(body + "==")), "groups": ["admins"]}
    raised = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    own = rsa.generate_private_key(65537, 2048)
    header = {"kid": "1", "jwk": json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(own.public_key()))}
    head_of_hmac = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"1"}').decode().rstrip("=")
    shared = f"{head_of_hmac}.{raised}"
    digest = hmac.digest(public, shared.encode(), "sha256")
    mac = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    deep = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 4000).decode().rstrip("=")
    forged = {
        "none": jwt.encode(claims, "", "none", {"kid": "1"}),
        "the public key as a shared one": f"{shared}.{mac}",
        "a key of its own": jwt.encode(claims, own, "RS256", {"kid": "1"}),
        "a key in its header": jwt.encode(claims, own, "RS256", header),
        "other claims": f"{head}.{raised}.{signature}",
        "no signature": f"{head}.{body}.",
        "a deep header": f"{deep}.{body}.{signature}",
        "no JSON": "a.b.c",
        "too long": issuing.token(AUDIENCE, long="x" * 20_000),
    }
    refused = {name: status(running, token)[0] for name, token in forged.items()}
    assert refused == dict.fromkeys(forged, 401)


def test_unknown_keys_are_looked_for_at_a_bounded_rate(
    running: Running, issuing: ForgingProvider
) -> None:
    status(running, issuing.token(AUDIENCE))
    before = len(issuing.reads)
    for number in range(20):
        assert status(running, issuing.token(AUDIENCE, kid=f"k{number}"))[0] == 401
    assert len(issuing.reads) - before <= 1
    issuing.down = True
    try:
        assert status(running, issuing.token(AUDIENCE))[0] == 200, "known keys go on"
    finally:
        issuing.down = False


def test_groups_decide_what_a_token_may(running: Running, issuing: ForgingProvider) -> None:
    roles = {}
    for group in ("staff", "editors", "admins", "visitors"):
        token = issuing.token(AUDIENCE, groups=[group], sub=group)
        headers = {"authorization": f"Bearer {token}"}
        pages = ("/v1/models", "/testsets", "/settings")
        roles[group] = [running.http.get(page, headers=headers).status_code for page in pages]
    assert roles == {
        "staff": [200, 403, 403],
        "editors": [200, 200, 403],
        "admins": [200, 200, 200],
        "visitors": [403, 403, 403],
    }


def test_tokens_of_a_person_end_when_they_are_revoked(
    running: Running, folder: Path, issuing: ForgingProvider
) -> None:
    place = ProjectFolder(folder)
    sessions = Sessions(place.ledger, ServeKeys(place))
    now = int(time.time())
    before, after = (issuing.token(AUDIENCE, sub="leo", iat=now + at) for at in (-5, 5))
    assert status(running, before)[0] == 200
    sessions.revoke(f"oidc:{issuing.issuer}#leo")
    assert "revoked" in status(running, before)[1]
    assert status(running, after)[0] == 200


def test_a_provider_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with forging_provider() as provider:
        sign_in = f"  sign_in: {{issuer: '{provider.issuer}', audiences: ['{AUDIENCE}']}}\n"
        folder = project(tmp_path, sign_in + PEOPLE)
        secret = ServeKeys(ProjectFolder(folder)).add(ServeKey("program"))
        provider.described = {"issuer": "https://other.example"}
        with served(folder) as server:
            code, message = status(server, provider.token(AUDIENCE))
            assert (code, "identity provider" in message) == (503, True)
            assert status(server, secret)[0] == 200, "keys go on"


def test_headers_count_only_from_the_proxy(tmp_path: Path) -> None:
    proxy = "  proxy: {addresses: [127.0.0.0/8], groups_header: X-Groups}\n"
    folder = project(tmp_path, proxy + PEOPLE)
    named = {"x-forwarded-user": "ann", "x-groups": "staff, other"}
    with served(folder) as server:
        http = server.http
        assert http.get("/v1/models").status_code == 401, "also on this machine"
        assert http.get("/v1/models", headers=named).status_code == 200
        labelled = [(b"x-forwarded-user", b"ann"), (b"x-groups", b"staff")]
        labelled.append((b"x-forwarded-preferred-username", "Ann É".encode()))
        shown = http.get("/sources", headers=labelled).text
        assert ">Ann É<" in shown
        assert "Sign out" not in shown, "that is the proxy's to do"
        wrong: list[list[tuple[str, str]]] = [
            [("x-forwarded-user", "ann"), ("x-forwarded-user", "olga"), ("x-groups", "staff")],
            [("x-forwarded-user", "ann"), ("x-groups", "staff"), ("x-groups", "admins")],
            [("x_forwarded_user", "ann"), ("x-groups", "staff")],
            [("x-forwarded-user", "x" * 256), ("x-groups", "staff")],
            [("x-groups", "staff")],
        ]
        assert [http.get("/v1/models", headers=sent).status_code for sent in wrong] == [401] * 5
        assert http.get("/v1/models", headers={"x-forwarded-user": "eve"}).status_code == 403
        rebound = {**named, "host": "evil.example"}
        assert http.get("/v1/models", headers=rebound).status_code == 421
    elsewhere = ("serve.proxy.addresses=[10.0.0.5]",)
    with served(folder, *elsewhere) as server:
        assert server.http.get("/v1/models", headers=named).status_code == 401


def test_credentials_that_browsers_add_open_no_way_for_other_sites(tmp_path: Path) -> None:
    """Browsers send a proxy's Basic credentials with the forms of every site."""
    folder = project(
        tmp_path, "  proxy: {addresses: [127.0.0.1]}\n  people: {default_role: reader}\n"
    )
    foreign = {"x-forwarded-user": "ann", "origin": "https://other.example"}
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
    tmp_path: Path, issuing: ForgingProvider, sent: list[str], readable: set[str]
) -> None:
    """Keycloak sends full paths; a member of a group below is no member of the one above."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, group in (("hr.md", "hr"), ("berlin.md", "hr/berlin")):
        (docs / name).write_text(f"---\ngroups: [{group}]\n---\n# Plan\n\nThe door opens.\n")
    proxy = "proxy: {addresses: [127.0.0.0/8], groups_header: X-Groups}"
    sign_in = f"sign_in: {{issuer: '{issuing.issuer}', audiences: ['{AUDIENCE}']}}"
    people = "people: {roles: {reader: [staff]}}"
    settings = f"sources: [docs]\nserve:\n  {proxy}\n  {sign_in}\n  {people}\n"
    (tmp_path / "ragwright.yaml").write_text(settings)
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
    with served(tmp_path) as server:
        named = {"x-forwarded-user": "ann", "x-groups": ",".join(sent)}
        token = {"authorization": f"Bearer {issuing.token(AUDIENCE, groups=sent)}"}
        for headers in (named, token):
            reply = server.http.post(
                "/v1/retrieve", json={"query": "What opens the plan?"}, headers=headers
            )
            seen = {hit["document_id"].removeprefix("docs/") for hit in reply.json()["hits"]}
            assert seen == readable


def test_configurations_are_opened_by_groups(tmp_path: Path) -> None:
    proxy = (
        "  proxy: {addresses: [127.0.0.1]}\n"
        "  configurations: {short: [retrieve.top_k=2], wide: [retrieve.top_k=9]}\n"
        "  people: {default_role: reader, roles: {owner: [admins]}, "
        "configurations: {staff: [short], more: [wide, short]}}\n"
    )
    folder = project(tmp_path, proxy)
    seen = {}
    with served(folder) as server:
        for group in ("staff", "more", "admins", "none"):
            headers = {"x-forwarded-user": "ann", "x-forwarded-groups": group}
            reply = server.http.get("/v1/models", headers=headers).json()
            seen[group] = [entry["id"] for entry in reply.get("data", [])]
    assert seen["staff"] == ["short"]
    assert sorted(seen["more"]) == ["short", "wide"]
    assert sorted(seen["admins"]) == ["handbook", "short", "wide"]
    assert seen["none"] == [], "a group that opens nothing does not open everything"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ("sign_in: {client_id: x}", "names no identity provider"),
        ("sign_in: {issuer: 'http://id.example', client_id: x}", "not an https address"),
        ("sign_in: {issuer: 'https://id.example'}", "lets nobody in"),
        ("sign_in: {issuer: 'https://id.example?x', client_id: x}", "a query"),
        ("sign_in: {issuer: 'https://i.example', client_id: x, scopes: [email]}", "openid"),
        ("sign_in: {issuer: 'https://i.example', client_id: x}", "people lets nobody in"),
        ("proxy: {addresses: [0.0.0.0/0]}", "names every address"),
        ("proxy: {addresses: [proxy.example]}", "does not appear to be"),
        ("proxy: {user_header: Authorization}", "sent by browsers"),
        ("people: {roles: {admin: [x]}}", "'admin' is not a role"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, settings: str, fault: str) -> None:
    folder = MakeProject(tmp_path)(f"serve:\n  {settings}\n")
    with pytest.raises(ConfigError, match=fault):
        serve(Serving(folder), Listening("127.0.0.1", 0))


def test_a_public_address_is_needed_where_others_sign_in(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)(
        "serve:\n  sign_in: {issuer: 'https://i.example', client_id: x}\n" + PEOPLE
    )
    with pytest.raises(ConfigError, match="public_url"):
        serve(Serving(folder), Listening("0.0.0.0", 0))


def test_no_key_is_named_like_a_person(tmp_path: Path) -> None:
    folder = project(tmp_path, "  port: 0\n")
    for name in ("oidc:https://id.example#ann", "proxy:ann"):
        with pytest.raises(ConfigError, match="names of people"):
            ServeKeys(ProjectFolder(folder)).add(ServeKey(name))

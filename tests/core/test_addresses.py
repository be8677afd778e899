"""Database addresses: variables filled in, passwords refused in files and kept out of messages."""

from __future__ import annotations

import pytest

from ragwright.core import ConfigError, filled_address, holds_secret, without_secret


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    written = "postgresql://u:${SHOP_PASSWORD}@h/d"
    monkeypatch.setenv("SHOP_PASSWORD", "p@ss/word")
    assert filled_address(written) == "postgresql://u:p%40ss%2Fword@h/d"
    assert filled_address("${SHOP_PASSWORD}") == "p@ss/word"
    assert filled_address("adbc+sqlite:///${SHOP_PASSWORD}.db") == "adbc+sqlite:///p@ss/word.db"
    monkeypatch.delenv("SHOP_PASSWORD")
    with pytest.raises(ConfigError, match="SHOP_PASSWORD"):
        filled_address(written)


@pytest.mark.parametrize(
    ("address", "secret"),
    [
        ("postgresql://u:secret@h/d", True),
        ("postgresql+psycopg://u:secret@h/d", True),
        ("postgresql://h/d?password=x", True),
        ("postgresql://u:a${B}@h/d", True),
        ("postgresql://[::1:secret@h/d", True),
        ("postgresql://u:${B}@h/d", False),
        ("postgresql://u@h/d?host=/tmp", False),
        ("adbc+sqlite:///a:b@c.db", False),
    ],
)
def test_a_password_in_an_address_is_seen(address: str, secret: bool) -> None:
    assert holds_secret(address) is secret


@pytest.mark.parametrize(
    "address",
    ["postgresql://u:hun%40ter@h/d", "postgresql://u@h/d?sslpassword=hun%40ter&x=1"],
)
def test_messages_are_told_without_the_password(address: str) -> None:
    told = without_secret(f"no route to {address}: hun@ter refused", address)
    assert "hun" not in told
    assert told.endswith("… refused")
    assert without_secret("as it is", "postgresql://h/d") == "as it is"

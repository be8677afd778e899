"""Database addresses: variables filled in, passwords refused in files and kept out of messages."""

from __future__ import annotations

import pytest

from ragwright.core import ConfigError, fill_address, hide_secret, holds_secret


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    written = "postgresql://u:${SHOP_PASSWORD}@h/d"
    monkeypatch.setenv("SHOP_PASSWORD", "p@ss/word")
    assert fill_address(written) == "postgresql://u:p%40ss%2Fword@h/d"
    assert fill_address("${SHOP_PASSWORD}") == "p@ss/word"
    assert fill_address("sqlite:///${SHOP_PASSWORD}.db") == "sqlite:///p@ss/word.db"
    monkeypatch.delenv("SHOP_PASSWORD")
    with pytest.raises(ConfigError, match="SHOP_PASSWORD"):
        fill_address(written)


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
        ("sqlite:///a:b@c.db", False),
        ("postgresql://u:a/b#c@h/d", True),
        ("postgresql://u@h/d?passwd=x", True),
        ("snowflake://u@acct/d?warehouse=w&token=x", True),
        ("snowflake://u@acct/d?token=${TOKEN}", False),
        ("bigquery://p?credentials_base64=x", True),
        ("bigquery://p?credentials_path=/etc/google.json", False),
        ("db://h/d?api_key=x", True),
        ("db://h/d?AccountKey=x", True),
        ("db://h/d?client_secret=x", True),
        ("mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BUID%3Du%3BPWD%3Dx%3By", True),
        ("mssql+pyodbc:///?odbc_connect=DRIVER=X;UID=u;PWD=x", True),
        ("mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BUID%3Du%3BPWD%3D%7B${B}%7D", False),
        ("mssql://h/d?driver=ODBC;pwd=x", True),
        ("postgresql://h/d?sslkey=/etc/me.key&keepalives_idle=30&passfile=/etc/p", False),
        ("db://h/d?keyspace=shop&token_url=http%3A%2F%2Fh", False),
        ("postgresql://[::1]:5432/d", False),
    ],
)
def test_a_password_in_an_address_is_seen(address: str, secret: bool) -> None:
    assert holds_secret(address) is secret


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:hun%40ter@h/d",
        "postgresql://u@h/d?sslpassword=hun%40ter&x=1",
        "snowflake://u@h/d?token=hun%40ter",
        "mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BPWD%3D%7Bhun%40ter%7D",
    ],
)
def test_messages_are_told_without_the_password(address: str) -> None:
    told = hide_secret(f"no route to {address}: hun@ter refused", address)
    assert "hun" not in told
    assert told.endswith("… refused")
    assert hide_secret("as it is", "postgresql://h/d") == "as it is"

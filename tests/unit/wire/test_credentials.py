"""Where the password of Redis comes from."""

from pathlib import Path

import pytest

from rta_wire import credentials, errors

SECRET = "s3cret-pa/ss@word"  # noqa: S105 - of a server that lives for a minute


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "redis-password"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


def test_where_the_password_comes_from(secret_file: Path, tmp_path: Path) -> None:
    """The URL before a file before the environment before credentials; two at a time in one place are a mistake."""
    variable = {
        credentials.PASSWORD_VARIABLE: "of the environment",
        credentials.CREDENTIALS_VARIABLE: str(secret_file.parent),
    }
    assert credentials.resolve_url("redis://:a@h", environ=variable).options == {}
    assert (
        credentials.resolve_url("redis://h", {"password_file": str(secret_file)}, variable).options["password"]
        == SECRET
    )
    assert credentials.resolve_url(
        f"redis://h?db=3&password_file={secret_file}", environ=variable
    ) == credentials.ResolvedUrl("redis://h?db=3", {"password": SECRET})
    assert credentials.resolve_url("redis://h", environ=variable).options == {"password": "of the environment"}
    credential = {credentials.CREDENTIALS_VARIABLE: str(secret_file.parent)}
    assert credentials.resolve_url("redis://h", environ=credential).options["password"] == SECRET
    assert (
        credentials.resolve_url("redis://h", environ={credentials.CREDENTIALS_VARIABLE: str(tmp_path / "none")}).options
        == {}
    )
    with pytest.raises(errors.BadConfiguration, match="too"):
        credentials.resolve_url("redis://:a@h", {"password_file": str(secret_file)})
    with pytest.raises(errors.BadConfiguration, match="can't be read"):
        credentials.resolve_url("redis://h", {"password_file": "/nowhere"})
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(errors.BadConfiguration, match="empty"):
        credentials.resolve_url("redis://h", {"password_file": str(tmp_path / "empty")})
    assert SECRET not in repr(credentials.ResolvedUrl(f"redis://:{SECRET}@h", {"password": SECRET}))

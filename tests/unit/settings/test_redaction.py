"""Secrets in settings: which values are secret, and how they are hidden."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.settings import redaction, settings


@given(st.text(), st.text(min_size=redaction.MIN_SECRET_CHARS))
def test_secrets_are_recognised_and_hidden(user: str, password: str) -> None:
    """A token, and the password inside a URL, whatever characters they have."""
    word = "".join(char for char in password if char not in "/ \t\n@:" and char.isprintable())
    name = "".join(char for char in user if char.isalnum())
    if len(word) < redaction.MIN_SECRET_CHARS or word in name or word in "redis://***@host":
        return
    url = f"redis://{name}:{word}@host:1/0"
    assert word not in redaction.redacted("url", url)
    assert redaction.redacted("token", word) == redaction.HIDDEN
    config = settings.Settings(redis=settings.RedisSettings(url=url), http=settings.HttpSettings(token=password))
    assert {word, password} == set(redaction.secrets(config))

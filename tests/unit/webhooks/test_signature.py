"""The signature of a post."""

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.webhooks import signature


@given(st.binary(min_size=1), st.binary(), st.integers(0, 2**40))
def test_the_signature_covers_time_and_body(secret: bytes, body: bytes, at_s: int) -> None:
    """Compared with its definition in the guide for receivers."""
    expected = hmac.new(secret, str(at_s).encode() + b"." + body, hashlib.sha256).hexdigest()
    assert signature.sign(secret, body, at_s) == f"t={at_s},v1={expected}"
